package shard

import (
	"context"
	"sync"
)

// incumbent holds the running leadership.
type incumbent struct {
	mu      sync.Mutex
	lead    *leadership   // nil: none runs
	changed chan struct{} // closed and replaced when lead changes
}

func newIncumbent() *incumbent { return &incumbent{changed: make(chan struct{})} }

func (i *incumbent) set(l *leadership) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lead = l
	close(i.changed)
	i.changed = make(chan struct{})
}

// get returns the running leadership, or nil if none runs, and a channel that is closed at the next change.
func (i *incumbent) get() (*leadership, <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.lead == nil || i.lead.ctx.Err() != nil {
		return nil, i.changed
	}
	return i.lead, i.changed
}

// lead runs one leadership until ctx or the leadership itself ends.
func (s *Shard) lead(ctx context.Context) {
	l := newLeadership(ctx, s)
	s.incumbent.set(l)
	l.start()
	<-l.ctx.Done()
	l.stop()
	s.incumbent.set(nil)
}

// current returns the running leadership, or nil if none runs.
func (s *Shard) current() *leadership {
	l, _ := s.incumbent.get()
	return l
}
