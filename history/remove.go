package history

import (
	"errors"
	"os"
)

// oldest returns the oldest sealed segment, or nil.
func (s *Shard) oldest() *part {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.segments) == 0 || !s.segments[0].sealed() {
		return nil
	}
	return s.segments[0]
}

// expire removes the segments whose last event is before an instant.
func (s *Shard) expire(instantMs int64) error {
	if err := s.sealBefore(instantMs); err != nil {
		return err
	}
	for p := s.oldest(); p != nil && p.last.AtMs < instantMs; p = s.oldest() {
		if err := s.removeOldest(p); err != nil {
			return err
		}
	}
	return nil
}

// sealBefore seals the active segment if its last event is before an instant.
func (s *Shard) sealBefore(instantMs int64) error {
	s.disk.Lock()
	defer s.disk.Unlock()
	if s.active == nil {
		return nil
	}
	last := s.active.Contents().Last
	if last == nil || last.AtMs >= instantMs {
		return nil
	}
	return s.result(s.seal())
}

// removeOldest raises the floor of all namespaces to the end of the oldest segment, and removes the segment.
func (s *Shard) removeOldest(p *part) error {
	s.disk.Lock()
	defer s.disk.Unlock()
	if s.isClosed() {
		return nil
	}
	c, err := load(p.path, false)
	if err != nil {
		return err
	}
	before, synced := s.floorsNow()
	after := before.clone()
	after.raiseAll(p.last)
	if err := s.saveMark(after, synced); err != nil {
		return err
	}
	s.mu.Lock()
	s.floors = after
	s.segments = s.segments[1:]
	for namespace, u := range c.Usage {
		if u.Last.Position().After(before.floorOf(namespace).Position()) {
			s.removeBytes(namespace, u.Bytes)
		}
	}
	s.mu.Unlock()
	return s.unlink(p)
}

func (s *Shard) unlink(p *part) error {
	s.store.directories.forget(p)
	s.store.metrics.removed.Add(float64(p.size))
	if err := os.Remove(p.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// oldestShare returns the oldest events of a namespace in a sealed segment, above its floor, or nil.
func (s *Shard) oldestShare(namespace string) (*share, error) {
	v, err := s.view(namespace)
	if errors.Is(err, ErrClosed) {
		return nil, nil
	}
	floor := v.floor.Position()
	for _, p := range v.parts {
		if !p.sealed() || !p.last.Position().After(floor) {
			continue
		}
		c, err := load(p.path, false)
		if err != nil {
			return nil, err
		}
		if u := c.Usage[namespace]; u != nil && u.Last.Position().After(floor) {
			return &share{s, p, u}, nil
		}
	}
	return nil, nil
}

// removeShare raises the floor of a namespace to the end of its share, in memory only: saveFloors follows. It returns
// the next share, or nil.
func (s *Shard) removeShare(sh *share) (*share, error) {
	s.disk.Lock()
	defer s.disk.Unlock()
	if s.isClosed() {
		return nil, nil
	}
	namespace := sh.usage.Namespace
	s.unsaved = true
	s.mu.Lock()
	s.floors.raise(namespace, sh.usage.Last)
	sh.part.live -= sh.usage.Bytes
	s.removeBytes(namespace, sh.usage.Bytes)
	s.mu.Unlock()
	return s.oldestShare(namespace)
}
