package shard

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// futures waits for what is asked of Raft. When Raft is shut down it forgets what lies in its channels, and whoever
// waits for that waits for ever. So nothing may be asked any more by then, and what has been asked is answered first.
type futures struct {
	mu     sync.Mutex
	barred bool
	out    int
	none   chan struct{} // closed when barred and none is out
}

func newFutures() *futures { return &futures{none: make(chan struct{})} }

// await asks, and returns the answer, or why ctx ended first.
func (f *futures) await(ctx context.Context, ask func() raft.Future) error {
	if !f.begin() {
		return raft.ErrRaftShutdown
	}
	future, answered := ask(), make(chan error, 1)
	go func() {
		defer f.end()
		answered <- future.Error()
	}()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *futures) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.barred {
		return false
	}
	f.out++
	return true
}

func (f *futures) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out--
	f.reportNone()
}

func (f *futures) reportNone() {
	if f.barred && f.out == 0 {
		close(f.none)
	}
}

// bar lets nothing be asked any more, and tells whether all that was asked has been answered within limit. It is called
// once.
func (f *futures) bar(limit time.Duration) bool {
	f.mu.Lock()
	f.barred = true
	f.reportNone()
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
