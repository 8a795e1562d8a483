package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/bench/workload"
)

// Run is the content of results.json.
type Run struct {
	Commit    string              `json:"commit"`
	Date      time.Time           `json:"date"`
	Machine   Machine             `json:"machine"`
	Sizes     json.RawMessage     `json:"sizes"` // sizes of the workloads
	Subjects  []Subject           `json:"subjects"`
	Workloads []workload.Workload `json:"workloads"`
	Measured  []workload.Measured `json:"measured"` // in the order of measuring
}

// Subject is a service in the report. The first subject of a run is the reference of the ratios.
type Subject struct {
	Name    string          `json:"name"`
	Promise subject.Promise `json:"promise"`
	Missing string          `json:"missing,omitempty"` // why it was not measured
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
func (r *Run) kind(name, key string) *workload.Figure {
	for _, w := range r.Workloads {
		if w.Name != name {
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

// Unknown returns the figures that tables show but no workload of this run has, and the peers of contests that are no
// subjects of this run.
func (r *Run) Unknown() (unknown []string) {
	for _, t := range slices.Concat(samePromise, tables) {
		for _, c := range t.columns {
			if r.kind(c.workload, c.key) == nil {
				unknown = append(unknown, c.workload+" "+c.key)
			}
		}
	}
	for _, c := range contests {
		if !slices.ContainsFunc(r.Subjects, func(s Subject) bool { return s.Name == c.peer }) {
			unknown = append(unknown, c.peer)
		}
	}
	return unknown
}

// Merge makes one run of several consecutive parts of a long run. The parts may have different workloads and subjects,
// but must share the commit, the machine and the sizes. Where two parts measured the same workload and subject, the
// round numbers of the later part continue those of the earlier one.
func Merge(runs ...*Run) (*Run, error) {
	if len(runs) == 0 {
		return nil, errors.New("there is no run")
	}
	all := *runs[0]
	all.Subjects, all.Workloads, all.Measured = nil, nil, nil
	for i, run := range runs {
		if err := all.sameAs(run); err != nil {
			return nil, fmt.Errorf("run %d: %w", i+1, err)
		}
		all.add(run)
	}
	return &all, nil
}

// sameAs returns an error that names the first difference that forbids to compare the two runs.
func (r *Run) sameAs(other *Run) error {
	here, there := r.Machine, other.Machine
	here.Fsync, there.Fsync, here.Echo, there.Echo = 0, 0, 0, 0 // measured anew in each run
	switch {
	case r.Commit != other.Commit:
		return fmt.Errorf("commit %s, not %s", other.Commit, r.Commit)
	case here != there:
		return fmt.Errorf("machine %+v, not %+v", there, here)
	case !sameJSON(r.Sizes, other.Sizes):
		return fmt.Errorf("sizes %s, not %s", other.Sizes, r.Sizes)
	}
	return nil
}

func sameJSON(a, b json.RawMessage) bool {
	var left, right bytes.Buffer
	if json.Compact(&left, a) != nil || json.Compact(&right, b) != nil {
		return false
	}
	return bytes.Equal(left.Bytes(), right.Bytes())
}

// add adds another run's subjects, workloads and figures.
func (r *Run) add(other *Run) {
	for _, s := range other.Subjects {
		i := slices.IndexFunc(r.Subjects, func(known Subject) bool { return known.Name == s.Name })
		switch {
		case i < 0:
			r.Subjects = append(r.Subjects, s)
		case s.Missing == "":
			r.Subjects[i] = s // installed meanwhile
		}
	}
	for _, w := range other.Workloads {
		if !slices.ContainsFunc(r.Workloads, func(known workload.Workload) bool { return known.Name == w.Name }) {
			r.Workloads = append(r.Workloads, w)
		}
	}
	before := map[[2]string]int{} // highest round so far
	for _, m := range r.Measured {
		before[whatOf(m)] = max(before[whatOf(m)], m.Round)
	}
	for _, m := range other.Measured {
		m.Round += before[whatOf(m)]
		r.Measured = append(r.Measured, m)
	}
}

func whatOf(m workload.Measured) [2]string { return [2]string{m.Workload, m.Subject} }

// rounds returns how many rounds each pair of workload and subject has.
func (r *Run) rounds() string {
	times := map[[2]string]int{}
	for _, m := range r.Measured {
		times[whatOf(m)]++
	}
	counts := slices.Sorted(maps.Values(times))
	switch n := len(counts); {
	case n == 0:
		return "0"
	case counts[0] == counts[n-1]:
		return strconv.Itoa(counts[0])
	default:
		return fmt.Sprintf("%d to %d", counts[0], counts[n-1])
	}
}

// Write writes results.json, RESULTS.md and the pictures into a folder, and makes the folder if it is missing.
func (r *Run) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	var tables bytes.Buffer
	if err := r.Markdown(&tables); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "results.json"), append(raw, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, "RESULTS.md"), tables.Bytes(), 0o644),
		r.writePictures(dir),
	)
}

func (r *Run) writePictures(dir string) error {
	for _, t := range tables {
		if t.picture == "" {
			continue
		}
		if picture := r.svg(t); picture != "" {
			if err := os.WriteFile(filepath.Join(dir, t.picture+".svg"), []byte(picture), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
