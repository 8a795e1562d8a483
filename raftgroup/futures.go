package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// ErrNotLeader and ErrRefused are errors of calls to Raft. Both prove that no log has seen the entry.
var (
	ErrNotLeader = errors.New("this node does not lead the group")
	ErrRefused   = errors.New("raft refuses for now") // a transfer is under way, Raft is busy, or the group stops
)

// errStopped is the error of a call that Raft did not answer before the group stopped.
var errStopped = errors.New("the group has stopped")

// futures waits for the answers of Raft. A Raft that shuts down forgets the calls in its channels and never answers
// them. So no call begins once the calls are barred. Calls under way get a while for their answers, and the rest end
// with Raft.
type futures struct {
	calls chan pendingCall // capacity 1: to the goroutine that waits for one
	down  chan struct{}    // closed when Raft has shut down

	mu     sync.Mutex
	barred bool
	out    int           // calls under way
	idle   bool          // a goroutine waits for a call
	none   chan struct{} // closed when the calls are barred and none is under way
}

func newFutures() *futures {
	return &futures{calls: make(chan pendingCall, 1), none: make(chan struct{}), down: make(chan struct{})}
}

// pendingCall is a call to make, and the channel for its answer.
type pendingCall struct {
	make    func() raft.Future
	answers chan answered
}

// answered is a future with its error, read from the future only once.
type answered struct {
	raft.Future
	err error
}

// await makes a call and returns its error, or ctx's cause if ctx ends first. It drops the answer that comes later.
func (f *futures) await(ctx context.Context, call func() raft.Future) error {
	_, err := f.awaitFuture(ctx, call)
	return err
}

// awaitFuture is await and also returns the future.
func (f *futures) awaitFuture(ctx context.Context, call func() raft.Future) (raft.Future, error) {
	answers, err := f.begin(call)
	if err != nil {
		return nil, err
	}
	select {
	case a := <-answers:
		return a.Future, a.err
	case <-f.down:
		return nil, errStopped
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// begin makes a call in another goroutine, since Raft may take a while to accept it. The channel receives the answer.
func (f *futures) begin(call func() raft.Future) (<-chan answered, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.barred {
		return nil, fmt.Errorf("%w: %w", ErrRefused, errStopped)
	}
	f.out++
	next := pendingCall{call, make(chan answered, 1)}
	if f.idle {
		f.idle = false
		f.calls <- next
	} else {
		go f.run(next)
	}
	return next.answers, nil
}

// run makes a call, and further ones as long as no other goroutine waits for them: most groups have one call at a time.
func (f *futures) run(next pendingCall) {
	for {
		future := next.make()
		err := explain(future.Error())
		stays := f.end()
		next.answers <- answered{future, err}
		if !stays {
			return
		}
		select {
		case next = <-f.calls:
		case <-f.down:
			return
		}
	}
}

// end counts a call as answered, and reports whether its goroutine is to wait for the next one.
func (f *futures) end() (stays bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.out--; f.barred && f.out == 0 {
		close(f.none)
	}
	stays = !f.idle && !f.barred
	f.idle = f.idle || stays
	return stays
}

// bar prevents further calls, and reports whether all calls under way were answered within limit. It is called once.
func (f *futures) bar(limit time.Duration) bool {
	f.mu.Lock()
	if f.barred = true; f.out == 0 {
		close(f.none)
	}
	f.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-f.none:
		return true
	case <-timer.C:
		return false
	}
}

// explain wraps Raft's errors that prove that Raft never took the entry.
func explain(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader):
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	case errors.Is(err, raft.ErrLeadershipTransferInProgress), errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}
