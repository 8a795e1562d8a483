package report

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/belfryhq/belfry/bench/figure"
	"github.com/belfryhq/belfry/bench/subject"
)

// Run is the content of results.json.
type Run struct {
	Commit    string            `json:"commit"`
	Date      time.Time         `json:"date"`
	Machine   Machine           `json:"machine"`
	Sizes     json.RawMessage   `json:"sizes"` // sizes of the workloads
	Subjects  []Subject         `json:"subjects"`
	Workloads []Workload        `json:"workloads"`
	Measured  []figure.Measured `json:"measured"` // in the order of measuring
}

// Subject is a service in the report. The first subject of a run is the reference of the ratios.
type Subject struct {
	Name    string          `json:"name"`
	Promise subject.Promise `json:"promise"`
	Missing string          `json:"missing,omitempty"` // why it was not measured
}

// Workload is a workload that was run.
type Workload struct {
	Name    string        `json:"name"`
	Title   string        `json:"title"`
	Figures []figure.Kind `json:"figures"`
}

// Machine describes the machine of a run.
type Machine struct {
	CPU        string        `json:"cpu"`
	Cores      int           `json:"cores"`
	MemoryMB   int64         `json:"memory_mb"`
	OS         string        `json:"os"` // with the kernel's version
	Go         string        `json:"go"`
	FileSystem string        `json:"file_system"` // that holds the data
	Fsync      time.Duration `json:"fsync_ns"`    // median cost of appending and syncing 4 KiB
	Echo       float64       `json:"echo_rate"`   // calls a second to a handler that only decodes and encodes a task
}

// Read reads a run from a file.
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

// kind returns a figure of a workload; nil if there is none.
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

// title returns a workload's title; its name if the workload was not run.
func (r *Run) title(workload string) string {
	for _, w := range r.Workloads {
		if w.Name == workload {
			return w.Title
		}
	}
	return workload
}

// Unknown returns the figures that tables show but no workload of this run has.
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
