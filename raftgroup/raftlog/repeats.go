package raftlog

import (
	"fmt"
	"sync"
	"time"
)

const (
	quiet       = 10 * time.Second // how long the same record is counted before it is shown again
	maxRepeated = 256              // records told apart by their peers
)

// repeats remembers which records were shown lately. Two are the same if their message and their peer are.
type repeats struct {
	mu    sync.Mutex
	shown map[string]*shownRecord
}

type shownRecord struct {
	at   time.Time
	left int // not shown since
}

func newRepeats() *repeats { return &repeats{shown: make(map[string]*shownRecord)} }

// show tells whether to show a record, and how many of the same were not shown before it.
func (r *repeats) show(msg string, args []any) (show bool, left int) {
	key, now := msg+peerIn(args), time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shown[key] == nil && len(r.shown) >= maxRepeated {
		key = msg // whatever the peer, which may be a stranger that makes up names
	}
	last := r.shown[key]
	switch {
	case last == nil:
		r.shown[key] = &shownRecord{at: now}
		return true, 0
	case now.Sub(last.at) < quiet:
		last.left++
		return false, 0
	}
	left = last.left
	last.at, last.left = now, 0
	return true, left
}

// peerIn returns the peer that a record is about; empty: none.
func peerIn(args []any) string {
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] == "peer" {
			return fmt.Sprint(args[i+1])
		}
	}
	return ""
}
