package capacity

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
)

// Workload is the load that a cluster must carry in its busiest hour.
type Workload struct {
	Tasks       float64       `json:"tasks"`     // pending at once
	Rate        float64       `json:"rate"`      // schedules a second
	Fires       float64       `json:"fires"`     // a second; the rest of the schedules is cancelled
	Payload     int           `json:"payload"`   // bytes
	ID          int           `json:"id"`        // bytes
	Labels      int           `json:"labels"`    // of a task, each different from those of all other tasks
	Webhooks    float64       `json:"webhooks"`  // the share of fires that are pushed; consumers pull the others
	Batch       float64       `json:"batch"`     // average tasks in a call
	KeepDone    time.Duration `json:"keep_done"` // retention of tombstones
	Replication int           `json:"replication"`
	Zones       int           `json:"zones"` // one of these zones may be lost whole; 0 or 1: one node may be lost
}

// DefaultWorkload returns the load that is assumed where the caller gives no figures.
func DefaultWorkload() Workload {
	return Workload{
		Tasks: 1e6, Rate: 1000, Fires: 1000, Payload: 200, ID: 24, Webhooks: 1, Batch: 1, KeepDone: task.DefaultKeepDone,
		Replication: 3,
	}
}

// Machine describes the machine of one node.
type Machine struct {
	Memory    float64 `json:"memory"` // bytes
	Cores     float64 `json:"cores"`
	Disk      float64 `json:"disk"`       // bytes
	DiskWrite float64 `json:"disk_write"` // bytes a second
	Syncs     float64 `json:"syncs"`      // fsyncs a second
	Network   float64 `json:"network"`    // bytes a second, each way
}

// DefaultMachine returns an ordinary machine of a data centre, with a solid-state disk.
func DefaultMachine() Machine {
	return Machine{Memory: 64 << 30, Cores: 16, Disk: 1 << 40, DiskWrite: 400e6, Syncs: 5000, Network: 10e9 / 8}
}

// bound is the allowed range of a field.
type bound struct {
	field       string
	value       float64
	least, most float64
	limit       string // in words
}

// Validate returns an error for the first field out of its bounds, with the command's flag and the bounds.
func (w Workload) Validate() error {
	const many = 1e12
	for _, b := range []bound{
		{"--tasks", w.Tasks, 1, many, "1 to 1e12"},
		{"--rate", w.Rate, 0, 1e9, "0 to 1e9 a second"},
		{"--fires", w.Fires, 0, w.Rate, fmt.Sprintf("0 to --rate, %g: what fires was scheduled", w.Rate)},
		{"--payload", float64(w.Payload), 0, task.MaxPayloadBytes, "0 to 262144 bytes, 256KiB"},
		{"--id", float64(w.ID), 1, task.MaxNameBytes, "1 to 200 bytes"},
		{"--labels", float64(w.Labels), 0, task.MaxLabels, fmt.Sprintf("0 to %d labels", task.MaxLabels)},
		{"--webhooks", w.Webhooks, 0, 1, "a share, 0 to 1"},
		{"--batch", w.Batch, 1, 1e6, "1 to 1e6 tasks a call"},
		{"--keep-done", w.KeepDone.Seconds(), 0, task.MaxDelay.Seconds(), "0 to 100 years"},
		{"--zones", float64(w.Zones), 0, 16, "0 to 16"},
	} {
		if err := b.check(); err != nil {
			return err
		}
	}
	if w.Replication != 1 && w.Replication != 3 && w.Replication != 5 {
		return fmt.Errorf("--replication is %d: 1, 3 or 5", w.Replication)
	}
	return nil
}

// Validate returns an error for the first field out of its bounds, with the command's flag and the bounds.
func (m Machine) Validate() error {
	for _, b := range []bound{
		{"--node-memory", m.Memory, 256 << 20, 64 << 40, "256MiB to 64TiB"},
		{"--node-cores", m.Cores, 0.1, 4096, "0.1 to 4096"},
		{"--disk", m.Disk, 1 << 30, 1 << 50, "1GiB to 1024TiB"},
		{"--disk-write", m.DiskWrite, 1e6, 1e12, "1MB to 1TB a second"},
		{"--syncs", m.Syncs, 1, 1e7, "1 to 1e7 a second"},
		{"--network", m.Network, 1e5, 1e12, "100KB to 1TB a second"},
	} {
		if err := b.check(); err != nil {
			return err
		}
	}
	return nil
}

func (b bound) check() error {
	if math.IsNaN(b.value) || b.value < b.least || b.value > b.most {
		return fmt.Errorf("%s is %s: %s", b.field, strconv.FormatFloat(b.value, 'f', -1, 64), b.limit)
	}
	return nil
}

func (w Workload) cancels() float64 { return w.Rate - w.Fires }

type suffix struct {
	text  string
	times float64
}

var (
	countSuffixes = []suffix{{"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"B", 1e9}, {"", 1}}
	byteSuffixes  = []suffix{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
		{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1},
	}
)

// ParseCount parses a number such as 1000, 200k, 1.5M or 1e9.
func ParseCount(text string) (float64, error) {
	return parse(text, countSuffixes, "a number such as 1000, 200k, 1.5M or 1e9")
}

// ParseBytes parses a size in bytes such as 300, 2KiB, 64GiB or 500GB.
func ParseBytes(text string) (float64, error) {
	return parse(text, byteSuffixes, "a size such as 300, 2KiB, 64GiB or 500GB")
}

func parse(text string, suffixes []suffix, form string) (float64, error) {
	for _, s := range suffixes {
		number, ok := strings.CutSuffix(text, s.text)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err == nil && !math.IsNaN(n) && !math.IsInf(n, 0) {
			return n * s.times, nil
		}
	}
	return 0, fmt.Errorf("%q is not %s", text, form)
}
