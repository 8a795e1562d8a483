package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

// touch measures heartbeats: tasks that are postponed again and again before they are due. Some of them fall silent
// halfway. Only the silent ones may arrive, at their last due instant.
func touch(s Sizes) Workload {
	return Workload{
		Name:    "touch",
		Title:   fmt.Sprintf("heartbeats of %d ids, due %v after the last", s.TouchIDs, s.TouchDelay),
		Figures: touchFigures(), needs: []need{toBeConsumed, toTouch},
		run: func(ctx context.Context, r *run) error {
			h := newHeartbeats(r.sizes)
			stop, err := r.consume(ctx, r.sizes.Consumers, h.got)
			if err != nil {
				return err
			}
			err = r.beat(ctx, h)
			return cmp.Or(stop(), err)
		},
	}
}

func touchFigures() []Figure {
	kinds := append(callFigures("touched a second"), Figure{Key: "false", Title: "arrived though touched"})
	kinds = append(kinds, latencyKinds("silent_", "the silent late")...)
	return append(kinds,
		Figure{Key: "early", Title: "of the silent, early"}, Figure{Key: "lost", Title: "of the silent, lost"})
}

// silentPart is the divisor of the number of silent heartbeats: one in silentPart.
const silentPart = 100

// heartbeats are tasks that are touched. The silent ones are touched only for half of the time.
type heartbeats struct {
	silent, beating *ledger
	delay           time.Duration
	half            time.Time // end of the silent ones' touches
}

func newHeartbeats(s Sizes) *heartbeats {
	silent := (s.TouchIDs + silentPart - 1) / silentPart
	return &heartbeats{
		silent: newLedger(newIDs(), silent), beating: newLedger(newIDs(), s.TouchIDs-silent), delay: s.TouchDelay,
	}
}

func (h *heartbeats) len() int { return len(h.silent.due) + len(h.beating.due) }

// ledgerOf returns the ledger of the i-th task and the task's number in it.
func (h *heartbeats) ledgerOf(i int) (*ledger, int) {
	if i < len(h.silent.due) {
		return h.silent, i
	}
	return h.beating, i - len(h.silent.due)
}

func (h *heartbeats) got(id string, at time.Time) {
	if _, ok := h.silent.ids.index(id); ok {
		h.silent.got(id, at)
		return
	}
	h.beating.got(id, at)
}

// next returns the due instant of a touch at this moment.
func (h *heartbeats) next() time.Time { return time.Now().Add(h.delay).Truncate(time.Millisecond) }

// task returns the i-th task as it is first scheduled.
func (h *heartbeats) task(payload []byte) func(i int) subject.Task {
	return func(i int) subject.Task {
		l, k := h.ledgerOf(i)
		l.setDue(k, h.next())
		return subject.Task{ID: l.ids.id(k), Due: l.dueOf(k), Payload: payload}
	}
}

func (r *run) beat(ctx context.Context, h *heartbeats) error {
	load, err := r.loader(ctx)
	if err != nil {
		return err
	}
	touchers := h.touchers(load.callers)
	if _, err := load.load(ctx, h.len(), h.task(newPayload(r.sizes.Payload))); err != nil {
		return err
	}
	h.half = time.Now().Add(r.sizes.TouchFor / 2)
	stop := r.meter()
	d, err := loop.Closed(ctx, touchers, loop.AnyNumber, r.sizes.TouchFor,
		func(ctx context.Context, t *toucher, _ int) error { return t.touchNext(ctx) })
	stop()
	if err != nil {
		return err
	}
	r.setCalls(d, d.Done)
	arrived := len(h.beating.punctuality(nil).lateness)
	r.set("false", float64(arrived))
	if err := h.silent.wait(ctx, h.half.Add(h.delay+r.sizes.Patience)); err != nil {
		return err
	}
	silent := h.silent.punctuality(nil)
	r.setLatencies("silent_", silent.lateness)
	r.set("early", float64(silent.early))
	r.set("lost", float64(silent.lost))
	r.say("%d touches of %d ids in %v; %d arrived though touched; of %d that fell silent %d did not arrive, %d were early",
		d.Done, h.len(), d.Elapsed, arrived, len(h.silent.due), silent.lost, silent.early)
	return nil
}

// toucher touches its own tasks in turn.
type toucher struct {
	subject.Toucher
	heartbeats *heartbeats
	tasks      []int
	turn       int
}

// touchers distributes the tasks over the callers.
func (h *heartbeats) touchers(callers []subject.Caller) []*toucher {
	touchers := make([]*toucher, min(len(callers), h.len()))
	for k := range touchers {
		touchers[k] = &toucher{Toucher: callers[k].(subject.Toucher), heartbeats: h}
		for i := k; i < h.len(); i += len(touchers) {
			touchers[k].tasks = append(touchers[k].tasks, i)
		}
	}
	return touchers
}

var errNothingToTouch = errors.New("all tasks have arrived though they were touched in time")

// touchNext touches the next task that has not fallen silent. It skips tasks that came due before their turn.
func (t *toucher) touchNext(ctx context.Context) error {
	h := t.heartbeats
	for range len(t.tasks) {
		l, k := h.ledgerOf(t.tasks[t.turn%len(t.tasks)])
		t.turn++
		if !l.arrivedAt(k).IsZero() || l == h.silent && time.Now().After(h.half) {
			continue
		}
		due := h.next()
		if err := t.Touch(ctx, l.ids.id(k), due); err == nil {
			l.setDue(k, due)
			return nil
		} else if time.Now().Before(l.dueOf(k)) {
			return err
		}
	}
	return errNothingToTouch
}
