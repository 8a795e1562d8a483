package raftlog

import (
	"fmt"
	"sync"
	"time"
)

const (
	quiet       = 10 * time.Second // time for which repeats of a record are counted and not shown
	maxRepeated = 256              // records distinguished by their peers
)

// repeats remembers the records shown lately. Two records are the same if their messages and peers are equal.
type repeats struct {
	mu    sync.Mutex
	shown map[string]*shownRecord
}

type shownRecord struct {
	at   time.Time
	left int // number of repeats not shown since
}

func newRepeats() *repeats { return &repeats{shown: make(map[string]*shownRecord)} }

// show reports whether to show a record, and how many equal ones were not shown before it.
func (r *repeats) show(msg string, args []any) (show bool, left int) {
	key, now := msg+peerIn(args), time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shown[key] == nil && len(r.shown) >= maxRepeated {
		key = msg // regardless of the peer, which may be a stranger that makes up names
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

// peerIn returns the peer named in a record's arguments; empty: none.
func peerIn(args []any) string {
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] == "peer" {
			return fmt.Sprint(args[i+1])
		}
	}
	return ""
}
