package raftgroup

import (
	"context"
	"errors"
	"sync"
	"time"
)

// tryAgain is how long after a leadership that ended by itself the next begins, if Raft leads on.
const tryAgain = time.Second

var errDeposed = errors.New("raft says so")

// watch follows Raft's leadership and runs one leadership after the other.
type watch struct {
	notify chan bool       // Raft's main loop blocks on it
	news   chan struct{}   // capacity 1: won or leading has changed
	down   <-chan struct{} // closed when Raft has shut down
	leads  func() bool     // Raft leads by its own word

	mu      sync.Mutex
	won     uint64 // how often the leadership was won
	leading bool
	end     context.CancelCauseFunc // of the running leadership; nil: none runs
}

func newWatch(down <-chan struct{}, leads func() bool) *watch {
	return &watch{notify: make(chan bool, 16), news: make(chan struct{}, 1), down: down, leads: leads}
}

// listen empties Raft's channel, and does nothing that could take time. A second true means lost and won again.
func (w *watch) listen() {
	for {
		select {
		case leading := <-w.notify:
			w.hear(leading)
		case <-w.down:
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
	if w.end != nil {
		w.end(errDeposed)
	}
	wake(w.news)
}

// run runs lead for each leadership until Raft is down.
func (w *watch) run(lead func(ctx context.Context)) {
	var last uint64 // the win that the last leadership was for
	for {
		<-w.news
		for w.lead(&last, lead) {
		}
		if w.isDown() {
			return
		}
	}
}

// lead runs one leadership, and reports whether the next may begin at once. If it does not, there will be news.
func (w *watch) lead(last *uint64, lead func(ctx context.Context)) bool {
	won, leading := w.state()
	if !leading || w.isDown() || won == *last && !w.goesOn() {
		return false
	}
	ctx, ok := w.begin(won)
	if !ok {
		return false
	}
	defer w.finish()
	*last = won
	lead(ctx)
	return true
}

func (w *watch) state() (won uint64, leading bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.won, w.leading
}

// begin returns the context of a leadership, unless it has been lost again by now.
func (w *watch) begin(won uint64) (_ context.Context, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.leading || w.won != won {
		return nil, false
	}
	ctx, end := context.WithCancelCause(context.Background())
	w.end = end
	return ctx, true
}

func (w *watch) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end(nil)
	w.end = nil
}

// goesOn reports whether Raft leads on although a leadership has ended by itself. It gives Raft time to say otherwise.
func (w *watch) goesOn() bool {
	timer := time.NewTimer(tryAgain)
	defer timer.Stop()
	select {
	case <-w.news:
		wake(w.news) // look again
		return false
	case <-timer.C:
		return w.leads()
	}
}

func (w *watch) isDown() bool {
	select {
	case <-w.down:
		return true
	default:
		return false
	}
}
