package logstore

import (
	"fmt"
	"sync"
	"time"

	"github.com/belfryhq/belfry/raftgroup/internal/awake"
)

// removals deletes segments that the log no longer names, one after the other, beside the log's writes. raft-wal itself
// deletes a segment where its last reader leaves it: the goroutine that cuts the log, an append or a reader. The first
// two keep the log locked. A cut after a snapshot deletes eight segments and more.
//
// raft-wal deletes the segments left at the end of the process when it opens the log.
type removals struct {
	guard *guard

	mu      sync.Mutex
	waiting []func() error
	worker  chan struct{} // closed when the worker has ended; nil: no worker
}

// longestRest is the longest pause between two deletions, in which other writes have the disk.
const longestRest = 200 * time.Millisecond

func (r *removals) add(remove func() error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, remove)
	if r.worker == nil {
		r.worker = make(chan struct{})
		go r.work()
	}
}

// work deletes the waiting segments, and rests after each for twice its duration. The guard admits no deletion after a
// failed write or a close.
func (r *removals) work() {
	for {
		remove := r.next()
		if remove == nil {
			return
		}
		began := time.Now()
		if r.guard.watch("delete a segment of the log", remove) == nil {
			r.rest(min(2*time.Since(began), longestRest))
		}
	}
}

func (r *removals) next() func() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		close(r.worker)
		r.worker = nil
		return nil
	}
	remove := r.waiting[0]
	r.waiting = r.waiting[1:]
	return remove
}

func (r *removals) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.guard.failed:
	}
}

// wait waits for the deletion under way, and returns an error if it hangs. The guard must be shut.
func (r *removals) wait() error {
	r.mu.Lock()
	worker := r.worker
	r.mu.Unlock()
	if worker == nil {
		return nil
	}
	late := make(chan struct{})
	timer := awake.AfterFunc(r.guard.timeout, func() { close(late) })
	defer timer.Stop()
	select {
	case <-worker:
		return nil
	case <-late:
		return fmt.Errorf("delete a segment of the log: %w after %v", ErrWriteTimeout, r.guard.timeout)
	}
}
