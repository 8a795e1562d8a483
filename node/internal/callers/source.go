package callers

import "github.com/belfryhq/belfry/access"

// source is the source of the cluster's keys. Before use it knows those that the node knew last.
type source struct {
	before access.Source // nil: not known
	keys   Keys          // set before used is closed
	used   chan struct{} // closed by use
}

var _ access.Source = (*source)(nil)

func (s *source) use(keys Keys) {
	s.keys = keys
	close(s.used)
}

// known returns the keys, or nil if they are not known yet.
func (s *source) known() access.Source {
	select {
	case <-s.used:
		return s.keys
	default:
		return s.before
	}
}

// KeysVersion is part of access.Source.
func (s *source) KeysVersion() uint64 {
	if keys := s.known(); keys != nil {
		return keys.KeysVersion()
	}
	return 0
}

// KeysInForce is part of access.Source.
func (s *source) KeysInForce() bool {
	keys := s.known()
	return keys != nil && keys.KeysInForce()
}

// Key is part of access.Source.
func (s *source) Key(id string) (record access.KeyRecord, exists bool) {
	if keys := s.known(); keys != nil {
		return keys.Key(id)
	}
	return access.KeyRecord{}, false
}

// KeyUsed is part of access.Source.
func (s *source) KeyUsed(id string) {
	if keys := s.known(); keys != nil {
		keys.KeyUsed(id)
	}
}
