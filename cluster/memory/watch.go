package memory

import (
	"context"
	"log/slog"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/size"
)

// every is the default interval between looks. Tasks may arrive at some 70 MB a second.
const every = 250 * time.Millisecond

// The bounds, in twentieths of the limit.
const (
	fullAt     = 15 // of used memory
	heldFullAt = 17 // of held memory, used or not
)

// TasksLimit returns the number of bytes in use from which on a node with this limit takes no more tasks.
func TasksLimit(limit int64) int64 { return limit / 20 * fullAt }

// machineReserve is the upper bound of the part of a machine's memory that must stay available, which is a twentieth.
const machineReserve = 512 << 20

// Tasks is the memory of the replicas' tasks on a node, in bytes.
type Tasks struct {
	Held   int64 // of the heap
	Free   int64 // part of Held that is free for further tasks
	Coming int64 // further memory that the tasks may need as they come due and are attempted
}

// Heap describes the heap at the last garbage collection.
type Heap struct {
	Live   int64  // bytes in use after the last collection
	Cycles uint64 // number of collections
}

// Machine is a machine's memory, in bytes.
type Machine struct{ Total, Available int64 }

// Config holds the limit and the sources of the figures.
type Config struct {
	Limit      int64                   // bytes; 0: none, and the node is never full
	Tasks      func() Tasks            // of this node
	Heap       func() Heap             // nil: this process's
	Machine    func() (Machine, error) // nil: OfMachine
	Changed    func()                  // called when the node becomes full, or is so no longer
	Every      time.Duration           // 0: a quarter of a second
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// Watch holds the last known use of memory. Its methods are safe for concurrent use.
type Watch struct {
	cfg Config

	mu     sync.Mutex
	cycles uint64 // number of collections when others was computed
	others int64  // live bytes that are not tasks'
	used   int64
	held   int64

	machine Machine // as last reported
	short   bool    // the machine has too little available
	full    string  // the limit that is reached, for people; empty: there is room
}

// New returns a Watch that has looked once; Run continues.
func New(cfg Config) *Watch {
	if cfg.Every == 0 {
		cfg.Every = every
	}
	if cfg.Heap == nil {
		cfg.Heap = heapOfProcess
	}
	if cfg.Machine == nil {
		cfg.Machine = OfMachine
	}
	w := &Watch{cfg: cfg}
	w.look()
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(w.collectors()...)
	}
	return w
}

// Run looks until the context ends.
func (w *Watch) Run(ctx context.Context) {
	ticker := time.NewTicker(w.cfg.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if w.look() {
				w.cfg.Changed()
			}
		case <-ctx.Done():
			return
		}
	}
}

// Used returns the memory in use at the last look and the limit, in bytes. A limit of 0 means none.
func (w *Watch) Used() (used, limit int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(w.used, 0), w.cfg.Limit
}

// Full names the limit that is reached; empty: there is room for more tasks.
func (w *Watch) Full() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.full
}

// look looks once, and reports whether the node became full or is so no longer.
func (w *Watch) look() (changed bool) {
	tasks, heap := w.cfg.Tasks(), w.cfg.Heap()
	machine, err := w.cfg.Machine()
	w.mu.Lock()
	defer w.mu.Unlock()
	if heap.Cycles != w.cycles {
		w.cycles, w.others = heap.Cycles, max(heap.Live-tasks.Held, 0)
	}
	w.held = w.others + tasks.Held
	w.used = w.held - tasks.Free + tasks.Coming
	if err == nil { // else the last known figures stand
		w.machine, w.short = machine, machine.Available < w.reserve(machine.Total)
	}
	before := w.full
	w.full = w.reached()
	w.tell(before)
	return (before == "") != (w.full == "")
}

// reached names the limit that is reached, or that was reached and is not left by enough yet.
func (w *Watch) reached() string {
	switch {
	case w.cfg.Limit == 0:
		return ""
	case w.over(w.used, fullAt) || w.over(w.held, heldFullAt):
		return size.Format(uint64(w.cfg.Limit))
	case w.short:
		return size.Format(uint64(w.reserve(w.machine.Total))) + " left on the machine"
	}
	return ""
}

// over reports whether bytes are at least the given twentieths of the limit, or, once the node is full, nineteen
// twentieths of that.
func (w *Watch) over(bytes, twentieths int64) bool {
	bound := w.cfg.Limit / 20 * twentieths
	if w.full != "" {
		bound = bound / 20 * 19
	}
	return bytes >= bound
}

// reserve returns how much of a machine's memory must be available, a quarter more once it was short.
func (w *Watch) reserve(total int64) int64 {
	reserve := min(total/20, machineReserve)
	if w.short {
		reserve += reserve / 4
	}
	return reserve
}

func (w *Watch) tell(before string) {
	switch {
	case before == "" && w.full != "":
		w.cfg.Logger.Error("the memory for tasks is used up: shards with a replica here take no more until some are done",
			"limit", w.full, "used", size.Format(uint64(w.used)), "held", size.Format(uint64(w.held)))
	case before != "" && w.full == "":
		w.cfg.Logger.Info("there is memory for tasks again", "used", size.Format(uint64(max(w.used, 0))))
	}
}

func heapOfProcess() Heap {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(samples)
	return Heap{Live: int64(samples[0].Value.Uint64()), Cycles: samples[1].Value.Uint64()}
}
