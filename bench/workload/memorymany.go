package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/bench/figure"
	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

// memoryMany measures the memory of many tasks while the service writes its whole state to snapshots. A service with a
// log does so now and then to shorten the log. Replacing some of the tasks makes the snapshots due.
func memoryMany(s Sizes) Workload {
	replaced := s.MemoryMany * replacedShare / 10
	return Workload{
		Name: "memory-many", Title: fmt.Sprintf("%d pending, %d of them replaced", s.MemoryMany, replaced),
		Figures: []figure.Kind{
			{Key: "rss_all", Title: "RSS, all processes, in the end", Unit: "MB"},
			{Key: "rss_peak", Title: "RSS, all processes, highest on the way", Unit: "MB"},
			{Key: "snapshots", Title: "snapshots written on the way"},
		},
		run: playMemoryMany,
	}
}

const (
	replacedShare = 3 // of ten tasks
	snapshotPoll  = time.Second
	// snapshotLimit is the longest wait for all snapshots.
	snapshotLimit = 10 * time.Minute
)

func playMemoryMany(ctx context.Context, r *run) error {
	load, err := r.loader(ctx)
	if err != nil {
		return err
	}
	if _, err := able[subject.Replacer](load.callers[0], "replace tasks by batches"); err != nil {
		return err
	}
	snapshotter, err := able[subject.Snapshotter](r.service, "tell how many snapshots it has written")
	if err != nil {
		return err
	}
	if _, err := r.someProcesses(); err != nil {
		return err
	}
	stop, watched, began := r.meter(), r.watchMemory(), time.Now()
	written, err := r.fillUntilSnapshots(ctx, load, snapshotter)
	stop()
	peak := watched()
	if err != nil {
		return err
	}
	end, err := r.weigh(nil)
	if err != nil {
		return err
	}
	r.set("rss_all", megabytes(end.all))
	r.set("rss_peak", megabytes(max(peak, end.all)))
	r.set("snapshots", float64(written))
	r.say("%d tasks there, some replaced, and %d snapshots written, in %v; %.0f MB at most", r.sizes.MemoryMany, written,
		time.Since(began), megabytes(peak))
	return nil
}

// fillUntilSnapshots schedules the tasks, replaces some, and waits until every part of the state has a snapshot.
func (r *run) fillUntilSnapshots(ctx context.Context, load *loader, of subject.Snapshotter) (written int, err error) {
	task := farOff(newIDs(), newPayload(r.sizes.Payload))
	if _, err := load.load(ctx, r.sizes.MemoryMany, task); err != nil {
		return 0, err
	}
	batches := max(r.sizes.MemoryMany*replacedShare/10/r.sizes.Batch, 1)
	replace := func(ctx context.Context, c subject.Caller, i int) error {
		return c.(subject.Replacer).Replace(ctx, batchOf(task, i*r.sizes.Batch, (i+1)*r.sizes.Batch))
	}
	_, err = loop.Closed(ctx, load.callers, batches, loop.Forever, replace)
	if err != nil {
		return 0, err
	}
	for until := time.Now().Add(snapshotLimit); ; {
		all, fewest, err := of.Snapshots(ctx)
		if err != nil || fewest > 0 {
			return all, err
		}
		if time.Now().After(until) {
			return 0, fmt.Errorf("not of everything a snapshot was written within %v, though %d were", snapshotLimit, all)
		}
		if err := loop.SleepUntil(ctx, time.Now().Add(snapshotPoll)); err != nil {
			return 0, err
		}
	}
}

const memoryLook = time.Second

// watchMemory samples the total memory of all processes until stop is called. stop returns the highest sample.
func (r *run) watchMemory() (stop func() int64) {
	var most int64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(memoryLook)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if w, err := r.weigh(nil); err == nil { // the final figures report the error
				most = max(most, w.all)
			}
		}
	}()
	return func() int64 {
		close(done)
		<-ended
		return most
	}
}
