package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/bench/figure"
	"github.com/belfryhq/belfry/deploy/procstat"
	"github.com/belfryhq/belfry/internal/loop"
)

func memory(s Sizes) Workload {
	return memoryOf("memory", s.MemoryTasks, s.Payload)
}

func memorySmall(s Sizes) Workload {
	return memoryOf("memory-small", s.MemoryTasks, s.SmallPayload)
}

// memoryOf measures the memory of each process with pending tasks, and its growth a task.
func memoryOf(name string, tasks, payload int) Workload {
	return Workload{
		Name: name, Title: fmt.Sprintf("%d pending, ids of %d bytes, payloads of %d", tasks, len(newIDs().id(0)), payload),
		Figures: []figure.Kind{
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
		Figures: []figure.Kind{
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
