// Package rights watches the rights of callers to calls that last: a key may be revoked, or a namespace deleted, while
// a call is under way.
package rights

import (
	"context"
	"sync"
	"time"
)

// Right is the right of a caller to one call. It is judged again and again until it is lost or stopped. A nil Right is
// never lost. The methods may be called concurrently.
type Right struct {
	every time.Duration
	judge func(context.Context) error

	life, lost context.Context
	lose       func(refusal error)

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// Watch returns the right to a call. It calls judge after each interval, with a context that ends with the watch. An
// error of judge is the refusal that ends the right. The caller must stop the watch.
func Watch(request context.Context, every time.Duration, judge func(context.Context) error) *Right {
	r := &Right{every: every, judge: judge}
	var endLife, lose context.CancelCauseFunc
	r.life, endLife = context.WithCancelCause(request)
	r.lost, lose = context.WithCancelCause(context.WithoutCancel(request))
	r.lose = func(refusal error) {
		lose(refusal) // first, so that the end of the life has its refusal
		endLife(refusal)
	}
	r.again()
	return r
}

func (r *Right) again() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		r.timer = time.AfterFunc(r.every, r.look)
	}
}

func (r *Right) look() {
	if err := r.judge(r.life); err != nil {
		r.end(err)
		return
	}
	r.again()
}

func (r *Right) end(refusal error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		r.lose(refusal)
	}
}

// Stop ends the watch, and the life of the call. A right that was not lost before stays so.
func (r *Right) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		r.stopped = true
		r.timer.Stop()
		r.lose(nil)
	}
}

// Life returns a context that ends when the caller leaves, when the right is lost, or with the watch. Only a nil Right
// has none.
func (r *Right) Life() context.Context { return r.life }

// Lost returns a context that ends when the right is lost, or with the watch.
func (r *Right) Lost() context.Context {
	if r == nil {
		return context.Background()
	}
	return r.lost
}

// Refusal returns the refusal that has ended the right, or nil.
func (r *Right) Refusal() error {
	if cause := context.Cause(r.Lost()); cause != context.Canceled { //nolint:errorlint // of Stop, and not wrapped
		return cause
	}
	return nil
}

// Within returns a context that ends with ctx, or when the time after the loss of the right is over.
func (r *Right) Within(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(r.Lost(), func() { time.AfterFunc(after, cancel) })
	return ctx, func() { stop(); cancel() }
}
