package shard

import (
	"sync"

	"github.com/hashicorp/raft"
)

// tail remembers how large the newest entries were, so that what is kept of the log behind a snapshot can be bounded in
// bytes. Raft counts entries, and one may hold a thousand tasks or none.
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

// within returns how many of the newest entries come to no more than so many bytes: at least one, and at most as many
// as are remembered.
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

// keepTail tells Raft how much of the log to leave behind the snapshot that is about to be taken.
func (s *Shard) keepTail() {
	s.reload("raft keeps as much log as before", func(c *raft.ReloadableConfig) {
		c.TrailingLogs = s.applier.tail.within(s.cfg.SnapshotTailBytes)
	})
}
