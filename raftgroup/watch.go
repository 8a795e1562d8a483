package raftgroup

import (
	"context"
	"errors"
	"sync"
	"time"
)

// tryAgain is the pause after a leadership that ended by itself, before the next one begins if Raft still leads.
const tryAgain = time.Second

var errDeposed = errors.New("raft says so")

// watch follows Raft's leadership and runs one leadership after the other.
type watch struct {
	notify chan bool       // Raft's main loop blocks on it
	news   chan struct{}   // capacity 1: won or leading has changed
	down   <-chan struct{} // closed when Raft has shut down
	leads  func() bool     // reports whether Raft believes that it leads

	mu      sync.Mutex
	won     uint64 // number of times that the leadership was won
	leading bool
	end     context.CancelCauseFunc // ends the running leadership; nil: none runs
}

func newWatch(down <-chan struct{}, leads func() bool) *watch {
	return &watch{notify: make(chan bool, 16), news: make(chan struct{}, 1), down: down, leads: leads}
}

// listen empties Raft's channel and does nothing slow. A second true means that the leadership was lost and won again.
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

// run calls lead for each leadership until Raft is down.
func (w *watch) run(lead func(ctx context.Context)) {
	var last uint64 // the number of the win that the last leadership was for
	for {
		<-w.news
		for w.lead(&last, lead) {
		}
		if w.isDown() {
			return
		}
	}
}

// lead runs one leadership, and reports whether the next may begin at once. Otherwise news will come.
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

// begin returns the context of a leadership, or false if the leadership has been lost by now.
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

// goesOn reports whether Raft still leads after a leadership that ended by itself. It first gives Raft time to report a
// loss.
func (w *watch) goesOn() bool {
	timer := time.NewTimer(tryAgain)
	defer timer.Stop()
	select {
	case <-w.news:
		wake(w.news) // for the loop in run
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
