// Package verdict tells what came of a fault run: each invariant with its figures, and for each breach all that is
// known of the task, so that a failed run can be understood from its report.
package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/check/linear"
	"github.com/belfryhq/belfry/chaos/history"
)

// Verdict is what came of a run.
type Verdict struct {
	Title    string
	Took     time.Duration // from the first to the last call
	Calls    int
	Arrivals int
	Findings []check.Finding
	Fates    check.Fates
	Tolls    []check.Toll
	Linear   linear.Result

	index *check.Index
}

// Of judges a run.
func Of(title string, h *history.History, limits check.Limits) *Verdict {
	x := check.NewIndex(h)
	v := &Verdict{
		Title: title, Calls: len(h.Calls), Arrivals: len(h.Arrivals), Findings: check.All(x, limits),
		Fates: check.FatesOf(x), Tolls: check.Tolls(x), Linear: linear.Check(h, linear.Limits{}), index: x,
	}
	v.Findings = append(v.Findings, v.Linear.Finding)
	if n := len(h.Calls); n > 0 {
		v.Took = h.Calls[n-1].Start.Sub(h.Calls[0].Start)
	}
	return v
}

// OK reports whether no invariant was breached. A single run need not exercise each of them: see the outcomes of the
// findings.
func (v *Verdict) OK() bool {
	return !slices.ContainsFunc(v.Findings, func(f check.Finding) bool { return f.Outcome() == check.Breached })
}

const (
	shownBreaches = 5  // tasks of a finding
	shownLines    = 40 // of a task
)

// String is the report.
func (v *Verdict) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d calls, %d arrivals, %.1f s\n", v.Title, v.Calls, v.Arrivals, v.Took.Seconds())
	for _, f := range v.Findings {
		fmt.Fprintf(&b, "%s %3s  %s%s\n          %s\n", words[f.Outcome()], f.Invariant, f.Promise, missing(&f), f.Figures)
		v.tellBreaches(&b, f.Breaches)
	}
	return b.String()
}

// words begin the line of a finding.
var words = map[check.Outcome]string{
	check.Held: "ok  ", check.Breached: "FAIL", check.NotExercised: "none", check.NotBuilt: "    ",
}

// missing names the observations without which the invariant was not exercised.
func missing(f *check.Finding) string {
	switch f.Outcome() {
	case check.NotExercised:
		return ": not exercised, no " + strings.Join(f.Missing(), ", no ")
	case check.NotBuilt:
		return ": not built"
	}
	return ""
}

func (v *Verdict) tellBreaches(b *strings.Builder, breaches []check.Breach) {
	told := map[string]bool{}
	for i, breach := range breaches {
		if len(told) == shownBreaches && !told[breach.ID] {
			fmt.Fprintf(b, "          … and %d more\n", len(breaches)-i)
			return
		}
		fmt.Fprintf(b, "     %4d %s: %s\n", i+1, breach.ID, breach.What)
		if told[breach.ID] {
			continue // once is enough to understand it
		}
		told[breach.ID] = true
		for _, line := range v.index.Timeline(breach.ID, breach.At, shownLines) {
			fmt.Fprintf(b, "               %s\n", line)
		}
	}
}
