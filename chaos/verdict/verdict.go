// Package verdict judges a recorded fault run and writes the report.
//
//	ok     1  nothing acknowledged is lost
//	          81 acknowledged: 80 delivered, …
//	FAIL   2  nothing is early
//	          80 arrivals, …
//	        1 order-7: arrived 3ms before it was due
//	               0.0000  operation 7: schedule via node-1 at …
//
// Reading the report:
//   - Each invariant has a line with its outcome (ok, FAIL, none for not exercised, blank for not built) and a line
//     with its figures.
//   - Each breach is followed by the timeline of its task, so that a failed run can be understood from its report
//     alone.
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

// Verdict is the judgement of one run.
type Verdict struct {
	Title    string
	Took     time.Duration // from the start of the first call to that of the last
	Calls    int
	Arrivals int
	Findings []check.Finding
	Fates    check.Fates
	Tolls    []check.Toll
	Linear   linear.Result

	index *check.Index
}

// Of judges the run h against limits. The title heads the report.
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

// OK reports whether no invariant was breached. A single run need not exercise every invariant: the findings' outcomes
// tell which it did.
func (v *Verdict) OK() bool {
	return !slices.ContainsFunc(v.Findings, func(f check.Finding) bool { return f.Outcome() == check.Breached })
}

const (
	shownBreaches = 5  // tasks shown for each finding
	shownLines    = 40 // timeline lines shown for each task
)

// String returns the report.
func (v *Verdict) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d calls, %d arrivals, %.1f s\n", v.Title, v.Calls, v.Arrivals, v.Took.Seconds())
	for _, f := range v.Findings {
		fmt.Fprintf(&b, "%s %3s  %s%s\n          %s\n", words[f.Outcome()], f.Invariant, f.Promise, missing(&f), f.Figures)
		v.tellBreaches(&b, f.Breaches)
	}
	return b.String()
}

// words are the first words of a finding's line, by its outcome.
var words = map[check.Outcome]string{
	check.Held: "ok  ", check.Breached: "FAIL", check.NotExercised: "none", check.NotBuilt: "    ",
}

// missing returns the text that follows a finding's promise if the invariant did not hold or fail: the observations
// that the run lacked, or that the feature is not built.
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
			continue // a task's timeline is shown once
		}
		told[breach.ID] = true
		for _, line := range v.index.Timeline(breach.ID, breach.At, shownLines) {
			fmt.Fprintf(b, "               %s\n", line)
		}
	}
}
