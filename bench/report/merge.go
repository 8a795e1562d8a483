package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/belfryhq/belfry/bench/figure"
)

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
		if !slices.ContainsFunc(r.Workloads, func(known Workload) bool { return known.Name == w.Name }) {
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

func whatOf(m figure.Measured) [2]string { return [2]string{m.Workload, m.Subject} }

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
