package report

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/belfryhq/belfry/bench/figure"
	"github.com/belfryhq/belfry/bench/subject"
)

// Run is everything about a run of the bench: what results.json holds.
type Run struct {
	Commit    string            `json:"commit"`
	Date      time.Time         `json:"date"`
	Machine   Machine           `json:"machine"`
	Sizes     json.RawMessage   `json:"sizes"` // of the workloads, as they say it
	Subjects  []Subject         `json:"subjects"`
	Workloads []Workload        `json:"workloads"`
	Measured  []figure.Measured `json:"measured"` // in the order in which it was
}

// Subject is a service that was measured. The first is the one that others are compared to.
type Subject struct {
	Name    string          `json:"name"`
	Promise subject.Promise `json:"promise"`
	Missing string          `json:"missing,omitempty"` // why it was not measured
}

// Workload is one that was run.
type Workload struct {
	Name    string        `json:"name"`
	Title   string        `json:"title"`
	Figures []figure.Kind `json:"figures"`
}

// Machine is where it was measured.
type Machine struct {
	CPU        string        `json:"cpu"`
	Cores      int           `json:"cores"`
	MemoryMB   int64         `json:"memory_mb"`
	OS         string        `json:"os"` // with its kernel
	Go         string        `json:"go"`
	FileSystem string        `json:"file_system"` // of the data
	Fsync      time.Duration `json:"fsync_ns"`    // what 4 KiB cost in the middle
	Echo       float64       `json:"echo_rate"`   // tasks that a handler echoes a second, which does nothing else
}

// Read reads a run from its file.
func Read(path string) (*Run, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var run Run
	if err := json.Unmarshal(data, &run); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &run, nil
}

// kind finds a figure of a workload; nil if there is none.
func (r *Run) kind(workload, key string) *figure.Kind {
	for _, w := range r.Workloads {
		if w.Name != workload {
			continue
		}
		for i := range w.Figures {
			if w.Figures[i].Key == key {
				return &w.Figures[i]
			}
		}
	}
	return nil
}

// title is that of a workload; its name if it was not run.
func (r *Run) title(workload string) string {
	for _, w := range r.Workloads {
		if w.Name == workload {
			return w.Title
		}
	}
	return workload
}

// Unknown names the figures that tables or goals are made of and that no workload of this run gives.
func (r *Run) Unknown() (unknown []string) {
	for _, t := range tables {
		for _, c := range t.columns {
			if r.kind(c.workload, c.key) == nil {
				unknown = append(unknown, c.workload+" "+c.key)
			}
		}
	}
	return unknown
}
