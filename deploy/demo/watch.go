package demo

import (
	"context"
	"strings"
	"time"
)

const (
	redrawEvery = 100 * time.Millisecond
	plainEvery  = 2 * time.Second
	lostAfter   = 20 * time.Second // a task that has not arrived this long after the last due time is lost
)

// showProgress shows the progress of the run until the context ends.
func (r *run) showProgress(ctx context.Context) {
	every := plainEvery
	if r.cfg.Live {
		every = redrawEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		p := r.tally.progress(now)
		r.screen.update("%5.1f s   nodes %s   due %d of %d   delivered %d   late by %s at most",
			now.Sub(r.start).Seconds(), r.lights(), p.due, p.acked, p.delivered, ms(p.worst))
	}
}

// lights shows which nodes run.
func (r *run) lights() string {
	var b strings.Builder
	for _, n := range r.cluster.Nodes() {
		if n.PID == 0 {
			b.WriteString("○")
		} else {
			b.WriteString("●")
		}
	}
	return b.String()
}

// awaitDeliveries returns when every task has arrived, or lostAfter after the last due time.
func (r *run) awaitDeliveries(ctx context.Context) error {
	end := time.NewTimer(time.Until(r.tally.dueAt(1).Add(lostAfter)))
	defer end.Stop()
	select {
	case <-r.tally.complete:
		return nil
	case <-end.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
