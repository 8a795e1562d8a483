package workload

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/bench/figure"
	"github.com/belfryhq/belfry/bench/subject"
)

// memoryMany is what many tasks cost in memory while they come and while each is replaced: a service that keeps a log
// then writes all that it holds to snapshots, and cuts the log.
func memoryMany(s Sizes) Workload {
	return Workload{
		Name: "memory-many", Title: fmt.Sprintf("%d pending, each replaced once", s.MemoryMany),
		Figures: []figure.Kind{
			{Key: "rss_all", Title: "RSS, all processes, in the end", Unit: "MB"},
			{Key: "rss_peak", Title: "RSS, all processes, highest on the way", Unit: "MB"},
			{Key: "snapshots", Title: "snapshots written on the way"},
			{Key: "refused", Title: "batches of replacements refused at first"},
		},
		run: playMemoryMany,
	}
}

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
	stop, watched := r.meter(), r.watchMemory()
	took, refused, err := r.scheduleTwice(ctx, load)
	stop()
	peak := watched()
	if err != nil {
		return err
	}
	written, err := snapshotter.Snapshots(ctx)
	if err != nil {
		return err
	}
	all, err := r.memoryOfAll()
	if err != nil {
		return err
	}
	r.set("rss_all", megabytes(all))
	r.set("rss_peak", megabytes(max(peak, all)))
	r.set("snapshots", float64(written))
	r.set("refused", float64(refused))
	r.say("%d tasks scheduled twice in %v; %.0f MB at most, %d snapshots, %d batches refused at first",
		r.sizes.MemoryMany, took, megabytes(peak), written, refused)
	return nil
}

// scheduleTwice schedules the tasks, and then each of them again. What is replaced while a snapshot is written may need
// its room twice: a service that is short of memory refuses it for a while, and that is tried again.
func (r *run) scheduleTwice(ctx context.Context, load *loader) (took time.Duration, refused int64, err error) {
	began, task := time.Now(), farOff(newIDs(), newPayload(r.sizes.Payload))
	if _, err := load.load(ctx, r.sizes.MemoryMany, task); err != nil {
		return 0, 0, err
	}
	var tries atomic.Int64
	calls := (r.sizes.MemoryMany + r.sizes.Batch - 1) / r.sizes.Batch
	_, err = drive(ctx, load.callers, calls, unlimited, func(ctx context.Context, c subject.Caller, i int) error {
		batch := batchOf(task, i*r.sizes.Batch, min(r.sizes.MemoryMany, (i+1)*r.sizes.Batch))
		for until := time.Now().Add(r.sizes.Patience); ; tries.Add(1) {
			err := c.(subject.Replacer).Replace(ctx, batch)
			if err == nil || time.Now().After(until) {
				return err
			}
			if err := sleepUntil(ctx, time.Now().Add(refusedPause)); err != nil {
				return err
			}
		}
	})
	return time.Since(began), tries.Load(), err
}

// refusedPause is how long a batch that was refused waits for its next try.
const refusedPause = time.Second

// memoryOfAll is what all processes have together, in bytes.
func (r *run) memoryOfAll() (all int64, err error) {
	processes, err := r.someProcesses()
	for _, usage := range processes {
		all += usage.RSS
	}
	return all, err
}

const memoryLook = time.Second

// watchMemory looks at what all processes have together until the function that it returns is called, which tells the
// most that was seen.
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
			if all, err := r.memoryOfAll(); err == nil { // the figures proper say what is wrong
				most = max(most, all)
			}
		}
	}()
	return func() int64 {
		close(done)
		<-ended
		return most
	}
}
