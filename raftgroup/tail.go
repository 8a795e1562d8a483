package raftgroup

import "sync"

// tail holds the sizes of the newest entries, so that the log behind a snapshot can be limited in bytes. Raft counts
// entries, each of which may be a few bytes or a megabyte.
type tail struct {
	mu    sync.Mutex
	sizes []int // in bytes, a ring
	next  int
}

func newTail(entries uint64) *tail { return &tail{sizes: make([]int, entries)} }

func (t *tail) add(bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sizes[t.next] = bytes
	t.next = (t.next + 1) % len(t.sizes)
}

// within returns how many of the newest entries together take at most the given bytes: at least one, and at most the
// number remembered.
func (t *tail) within(bytes int64) (entries uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.next
	for range t.sizes {
		at = (at + len(t.sizes) - 1) % len(t.sizes)
		if bytes -= int64(t.sizes[at]); bytes < 0 {
			break
		}
		entries++
	}
	return max(entries, 1)
}
