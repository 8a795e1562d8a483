package shard

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// tryAgain is how long a leadership that ended by itself may lie before the next begins, if Raft still says leader.
const tryAgain = time.Second

var errDeposed = errors.New("raft says so")

// watch follows Raft's leadership and runs one leadership after the other.
type watch struct {
	shard  *Shard
	notify chan bool     // Raft's main loop blocks on it
	news   chan struct{} // capacity 1: told has changed

	mu      sync.Mutex
	won     uint64 // how often the leadership was won
	leading bool
	current *leadership   // nil: none
	changed chan struct{} // closed and replaced when current changes
}

func newWatch(s *Shard) *watch {
	return &watch{
		shard: s, notify: make(chan bool, 16), news: make(chan struct{}, 1), changed: make(chan struct{}),
	}
}

// listen empties Raft's channel, and does nothing that could take time. A second true means lost and won again.
func (w *watch) listen() {
	for {
		select {
		case leading := <-w.notify:
			w.hear(leading)
		case <-w.shard.raftDown:
			w.hear(false)
			return
		}
	}
}

func (w *watch) hear(leading bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leading = leading
	if leading {
		w.won++
	}
	if w.current != nil {
		w.current.end(errDeposed)
	}
	wake(w.news)
}

// run starts and stops leaderships until the shard closes.
func (w *watch) run() {
	var lead *leadership
	var ofWin uint64
	for {
		w.await(lead)
		won, leading := w.told()
		if lead != nil && leading && won == ofWin && lead.ctx.Err() == nil {
			continue // news from before it began
		}
		if lead != nil {
			lead.stop()
			lead = nil
			w.set(nil)
		}
		if w.shard.isDown() {
			return
		}
		if !leading || won == ofWin && !w.stillLeading() {
			continue
		}
		lead, ofWin = newLeadership(w.shard), won
		w.set(lead)
		lead.start()
	}
}

// await waits until there is something to do.
func (w *watch) await(lead *leadership) {
	var ended <-chan struct{}
	if lead != nil {
		ended = lead.ctx.Done()
	}
	select {
	case <-w.news:
	case <-ended:
	}
}

// stillLeading is asked when a leadership ended although Raft said nothing. It gives Raft time to do so.
func (w *watch) stillLeading() bool {
	timer := time.NewTimer(tryAgain)
	defer timer.Stop()
	select {
	case <-w.news:
		wake(w.news) // look again
		return false
	case <-timer.C:
		return w.shard.raft.State() == raft.Leader
	}
}

func (w *watch) told() (won uint64, leading bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.won, w.leading
}

func (w *watch) set(l *leadership) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current = l
	close(w.changed)
	w.changed = make(chan struct{})
	if l != nil && !w.leading {
		l.end(errDeposed) // it was lost while the last one was being stopped
	}
}

// get returns the running leadership, nil if there is none, and a channel that is closed when that changes.
func (w *watch) get() (*leadership, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current == nil || w.current.ctx.Err() != nil {
		return nil, w.changed
	}
	return w.current, w.changed
}
