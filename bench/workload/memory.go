package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/deploy/procstat"
	"github.com/belfryhq/belfry/internal/loop"
)

// memory measures the memory of each process with pending tasks, and its growth a task.
func memory(name string, tasks, payload int) Workload {
	return Workload{
		Name: name, Title: fmt.Sprintf("%d pending, ids of %d bytes, payloads of %d", tasks, len(newIDs().id(0)), payload),
		Figures: []Figure{
			{Key: "rss", Title: "RSS, largest process", Unit: "MB"},
			{Key: "rss_all", Title: "RSS, all processes", Unit: "MB"},
			{Key: "task", Title: "a task, largest process", Unit: "B"},
		},
		run: func(ctx context.Context, r *run) error { return r.memory(ctx, tasks, payload) },
	}
}

var errNoProcess = errors.New("the subject has no process on this machine")

func (r *run) someProcesses() (map[int]procstat.Tree, error) {
	all, err := r.processes()
	if err == nil && len(all) == 0 {
		err = errNoProcess
	}
	return all, err
}

// weight is the memory of the service's processes, in bytes.
type weight struct {
	largest, all int64
	growth       int64 // most growth of a process since an earlier look
	processes    int
}

// weigh reads the memory of the processes. before is the usage at the earlier look; nil: there was none.
func (r *run) weigh(before map[int]procstat.Tree) (w weight, err error) {
	now, err := r.someProcesses()
	for pid, usage := range now {
		w.largest, w.all = max(w.largest, usage.Memory), w.all+usage.Memory
		w.growth = max(w.growth, usage.Memory-before[pid].Memory)
	}
	w.processes = len(now)
	return w, err
}

func (r *run) memory(ctx context.Context, tasks, payload int) error {
	load, err := r.loader(ctx)
	if err != nil {
		return err
	}
	before, err := r.someProcesses()
	if err != nil {
		return err
	}
	stop := r.meter()
	took, err := load.load(ctx, tasks, farOff(newIDs(), newPayload(payload)))
	stop()
	if err != nil {
		return err
	}
	if err := loop.SleepUntil(ctx, time.Now().Add(r.sizes.Settle)); err != nil {
		return err
	}
	w, err := r.weigh(before)
	if err != nil {
		return err
	}
	r.set("rss", megabytes(w.largest))
	r.set("rss_all", megabytes(w.all))
	r.set("task", float64(w.growth)/float64(tasks))
	r.say("%d tasks scheduled in %v; %v later the largest of %d processes has %.0f MB", tasks, took.Elapsed,
		r.sizes.Settle, w.processes, megabytes(w.largest))
	return nil
}

// megabytes converts bytes to units of 10⁶ bytes.
func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }

// idle measures the cost of a service without work.
func idle(s Sizes) Workload {
	return Workload{
		Name: "idle", Title: fmt.Sprintf("idle for %v", s.IdleFor),
		Figures: []Figure{
			{Key: "cpu", Title: "of a core, busiest process", Unit: "%"},
			{Key: "cpu_all", Title: "of a core, all processes", Unit: "%"},
			{Key: "rss", Title: "RSS, largest process", Unit: "MB"},
		},
		run: playIdle,
	}
}

func playIdle(ctx context.Context, r *run) error {
	if err := loop.SleepUntil(ctx, time.Now().Add(r.sizes.Settle)); err != nil {
		return err
	}
	before, err := r.someProcesses()
	if err != nil {
		return err
	}
	stop, began := r.meter(), time.Now()
	if err := loop.SleepUntil(ctx, began.Add(r.sizes.IdleFor)); err != nil {
		return err
	}
	took := time.Since(began)
	stop()
	after, err := r.someProcesses()
	if err != nil {
		return err
	}
	var busiest, all, largest float64
	for pid, usage := range after {
		share := 100 * float64(usage.Processor-before[pid].Processor) / float64(took)
		busiest, all, largest = max(busiest, share), all+share, max(largest, megabytes(usage.Memory))
	}
	r.set("cpu", busiest)
	r.set("cpu_all", all)
	r.set("rss", largest)
	r.say("%d processes idle for %v", len(after), took)
	return nil
}

// memoryMany measures the memory of many tasks while the service writes its whole state to snapshots. A service with a
// log does so now and then to shorten the log. Replacing some of the tasks makes the snapshots due.
func memoryMany(s Sizes) Workload {
	replaced := s.MemoryMany * replacedShare / 10
	return Workload{
		Name: "memory-many", Title: fmt.Sprintf("%d pending, %d of them replaced", s.MemoryMany, replaced),
		Figures: []Figure{
			{Key: "rss_all", Title: "RSS, all processes, in the end", Unit: "MB"},
			{Key: "rss_peak", Title: "RSS, all processes, highest on the way", Unit: "MB"},
			{Key: "snapshots", Title: "snapshots written on the way"},
		},
		needs: []need{toReplace, toSnapshot}, run: playMemoryMany,
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
	if _, err := r.someProcesses(); err != nil {
		return err
	}
	stop, watched, began := r.meter(), r.watchMemory(), time.Now()
	written, err := r.fillUntilSnapshots(ctx, load)
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
func (r *run) fillUntilSnapshots(ctx context.Context, load *loader) (written int, err error) {
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
		all, fewest, err := r.service.(subject.Snapshotter).Snapshots(ctx)
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
