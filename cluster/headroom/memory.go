package headroom

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// memoryEvery is the interval between looks at the memory. Tasks may arrive at some 70 MB a second.
const memoryEvery = 250 * time.Millisecond

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

// Node returns the memory of the tasks of a node.
type Node interface{ Tasks() Tasks }

// MemoryConfig holds the limit and the sources of the figures.
type MemoryConfig struct {
	Limit      int64 // bytes; 0: none, and the node is never full
	Node       Node
	Host       Host
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// Memory holds the last known use of memory. Its methods are safe for concurrent use.
type Memory struct {
	cfg MemoryConfig

	mu     sync.Mutex
	cycles uint64 // number of collections when others was computed
	others int64  // live bytes that are not tasks'
	used   int64
	held   int64

	machine Machine // as last reported
	short   bool    // the machine has too little available
	full    string  // the limit that is reached, for people; empty: there is room
}

// NewMemory returns a Memory that has looked once; Run continues.
func NewMemory(cfg MemoryConfig) *Memory {
	m := &Memory{cfg: cfg}
	m.look()
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(m.collectors()...)
	}
	return m
}

// Run looks until the context ends. It calls changed when the node becomes full, or is so no longer.
func (m *Memory) Run(ctx context.Context, changed func()) { watch(ctx, memoryEvery, m.look, changed) }

// Used returns the memory in use at the last look and the limit, in bytes. A limit of 0 means none.
func (m *Memory) Used() (used, limit int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(m.used, 0), m.cfg.Limit
}

// Full names the limit that is reached; empty: there is room for more tasks.
func (m *Memory) Full() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.full
}

// look looks once, and reports whether the node became full or is so no longer.
func (m *Memory) look() (changed bool) {
	tasks, heap := m.cfg.Node.Tasks(), m.cfg.Host.Heap()
	machine, err := m.cfg.Host.Machine()
	m.mu.Lock()
	defer m.mu.Unlock()
	if heap.Cycles != m.cycles {
		m.cycles, m.others = heap.Cycles, max(heap.Live-tasks.Held, 0)
	}
	m.held = m.others + tasks.Held
	m.used = m.held - tasks.Free + tasks.Coming
	if err == nil { // else the last known figures stand
		m.machine, m.short = machine, machine.Available < m.reserve(machine.Total)
	}
	before := m.full
	m.full = m.reached()
	m.tell(before)
	return (before == "") != (m.full == "")
}

// reached names the limit that is reached, or that was reached and is not left by enough yet.
func (m *Memory) reached() string {
	switch {
	case m.cfg.Limit == 0:
		return ""
	case m.over(m.used, fullAt) || m.over(m.held, heldFullAt):
		return FormatBytes(uint64(m.cfg.Limit))
	case m.short:
		return FormatBytes(uint64(m.reserve(m.machine.Total))) + " left on the machine"
	}
	return ""
}

// over reports whether bytes are at least the given twentieths of the limit, or, once the node is full, nineteen
// twentieths of that.
func (m *Memory) over(bytes, twentieths int64) bool {
	bound := m.cfg.Limit / 20 * twentieths
	if m.full != "" {
		bound = bound / 20 * 19
	}
	return bytes >= bound
}

// reserve returns how much of a machine's memory must be available, a quarter more once it was short.
func (m *Memory) reserve(total int64) int64 {
	reserve := min(total/20, machineReserve)
	if m.short {
		reserve += reserve / 4
	}
	return reserve
}

func (m *Memory) tell(before string) {
	switch {
	case before == "" && m.full != "":
		m.cfg.Logger.Error("the memory for tasks is used up: shards with a replica here take no more until some are done",
			"limit", m.full, "used", FormatBytes(uint64(m.used)), "held", FormatBytes(uint64(m.held)))
	case before != "" && m.full == "":
		m.cfg.Logger.Info("there is memory for tasks again", "used", FormatBytes(uint64(max(m.used, 0))))
	}
}

func (m *Memory) collectors() []prometheus.Collector {
	gauge := gauges("memory", &m.mu)
	return []prometheus.Collector{
		gauge("limit_bytes", "Memory that the node may use; 0: no limit.", func() float64 { return float64(m.cfg.Limit) }),
		gauge("used_bytes", "Memory in use, and what the tasks in it may come to use as they come due. From three quarters "+
			"of the limit on, no more tasks are taken.", func() float64 { return float64(m.used) }),
		gauge("held_bytes", "Memory in use, and the part of it that is free for further tasks.",
			func() float64 { return float64(m.held) }),
		gauge("full", "1 while no more tasks are taken.", func() float64 { return flag(m.full != "") }),
	}
}
