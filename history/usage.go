package history

import "strings"

// namespaceUsage is the usage of one namespace in a shard.
type namespaceUsage struct {
	bytes   int64    // in segments, above the floor
	written Position // of its last event in segments
	newest  Position // of its last event, also in memory
}

// usageOf returns the entry of a namespace, and makes one if there is none. mu is held.
func (s *Shard) usageOf(namespace string) *namespaceUsage {
	u := s.usage[namespace]
	if u == nil {
		u = &namespaceUsage{}
		s.usage[strings.Clone(namespace)] = u // the name of an event may share the memory of its whole block
	}
	return u
}

// addBytes adds bytes in segments, up to a position, to the usage of a namespace. mu is held.
func (s *Shard) addBytes(namespace string, bytes int64, last Position) {
	u := s.usageOf(namespace)
	u.bytes += bytes
	u.written = later(u.written, last)
	u.newest = later(u.newest, last)
}

func later(p, q Position) Position {
	if q.After(p) {
		return q
	}
	return p
}

// removeBytes subtracts bytes from the usage of a namespace. mu is held.
func (s *Shard) removeBytes(namespace string, bytes int64) {
	u := s.usage[namespace]
	if u == nil {
		return
	}
	if u.bytes -= bytes; u.bytes <= 0 && !u.newest.After(u.written) {
		delete(s.usage, namespace)
	}
}

// addUsage adds the bytes of each namespace.
func (s *Shard) addUsage(usage map[string]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace, u := range s.usage {
		usage[namespace] += u.bytes
	}
}

// newestOf returns the position of the newest event of a namespace. mu is held.
func (s *Shard) newestOf(namespace string) Position {
	if u := s.usage[namespace]; u != nil {
		return u.newest
	}
	return Position{}
}
