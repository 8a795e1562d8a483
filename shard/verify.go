package shard

import (
	"context"
	"sync"
)

// verifier proves in rounds that this node leads. A reader that comes during a round waits for the next one, so that
// every round begins after all of its readers have read.
type verifier struct {
	lead *leadership

	mu      sync.Mutex
	next    *round // not yet begun; nil: no reader waits for one
	running bool
}

type round struct {
	done chan struct{}
	err  error // valid once done is closed
}

// verify returns nil if this node led its term at some moment after the call.
func (v *verifier) verify(ctx context.Context) error {
	r := v.join()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (v *verifier) join() *round {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.next == nil {
		v.next = &round{done: make(chan struct{})}
	}
	if !v.running {
		v.running = true
		go v.run() // ends with the leadership at the latest
	}
	return v.next
}

// run serves rounds until no reader waits.
func (v *verifier) run() {
	for {
		v.mu.Lock()
		r := v.next
		v.next = nil
		v.running = r != nil
		v.mu.Unlock()
		if r == nil {
			return
		}
		r.err = v.prove()
		close(r.done)
	}
}

// prove returns nil if this node led its term at some moment after the call. It ends a leadership whose term is over:
// Raft may have lost the leadership and won it again without telling.
func (v *verifier) prove() error {
	s, term := v.lead.shard, v.lead.term.Load()
	err := s.group.Verify(v.lead.ctx, term)
	if !s.group.LeadsIn(term) {
		v.lead.end(errEnded)
	}
	if err != nil {
		return s.notLeader()
	}
	return nil
}
