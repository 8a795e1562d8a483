package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/client"
)

// Clock is an estimate of the difference between the cluster's clock and this machine's.
type Clock struct {
	Offset time.Duration // the cluster's minus this machine's
	Error  time.Duration // bound of the estimate's error: half of the shortest round trip, and a millisecond
}

// clockTries is the number of calls of an estimate. The one with the shortest round trip counts.
const clockTries = 10

// readClock estimates the cluster's clock as NTP does: a task due a delay after the receipt of a call tells the time of
// the receipt, which lies between the begin and the end of the call.
func (r *run) readClock(ctx context.Context) (Clock, error) {
	const later = time.Hour
	id := r.Queue + "-clock"
	if _, err := r.Receiver.Schedule(ctx, client.Task{ID: id, Queue: r.Queue, Delay: later}); err != nil {
		return Clock{}, err
	}
	best := Clock{Error: time.Hour}
	for range clockTries {
		began := time.Now()
		task, err := r.Receiver.Patch(ctx, id, client.Patch{Delay: later})
		if err != nil {
			return Clock{}, fmt.Errorf("read the clock: %w", err)
		}
		trip := time.Since(began)
		best = best.nearer(began, trip, task.FireAt.Add(-later))
	}
	_, err := r.Receiver.Cancel(ctx, id)
	return best, err
}

// nearer returns the better one of c and the estimate of one round trip, during which the cluster's clock was read.
func (c Clock) nearer(began time.Time, trip time.Duration, read time.Time) Clock {
	if e := trip/2 + time.Millisecond; e < c.Error { // due times are whole milliseconds
		return Clock{Offset: read.Sub(began.Add(trip / 2)), Error: e}
	}
	return c
}

// now returns the cluster's time.
func (c Clock) now() time.Time { return time.Now().Add(c.Offset) }

var errTaken = errors.New("the queue has a policy or tasks already: the measurement would take them")
