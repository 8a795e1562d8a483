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
//   - Each invariant has a line with its outcome (ok, FAIL, none for not exercised) and a line with its figures.
//   - Each breach is followed by the timeline of its task, so that a failed run can be understood from its report
//     alone.
package verdict

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

	parts map[string]*part // by namespace
}

// part is the judgement of a run within one namespace.
type part struct {
	index  *check.Index
	linear linear.Result
}

// Of judges the run h against limits. The title heads the report. Each namespace is judged by itself: an invariant
// holds if it was put to the test in each, and held.
func Of(title string, h *history.History, limits check.Limits) *Verdict {
	v := &Verdict{Title: title, Calls: len(h.Calls), parts: map[string]*part{}}
	v.Arrivals = len(h.Arrivals) + len(h.Occurrences) + len(h.FollowUps)
	for _, namespace := range h.Namespaces() {
		v.join(v.judge(h.In(namespace), limits))
	}
	v.Findings = append(v.Findings, check.Apart(h, limits), check.Attacks(h, limits))
	if n := len(h.Calls); n > 0 {
		v.Took = h.Calls[n-1].Start.Sub(h.Calls[0].Start)
	}
	return v
}

// judge judges the part of a run in one namespace.
func (v *Verdict) judge(h *history.History, limits check.Limits) []check.Finding {
	p := &part{index: check.NewIndex(h), linear: linear.Check(h, linear.Limits{})}
	v.parts[h.Namespace] = p
	v.Fates = v.Fates.Plus(check.FatesOf(p.index))
	for _, toll := range check.Tolls(p.index) {
		if len(v.parts) > 1 {
			toll.Count, toll.Held = 0, check.Spread{} // the faults, and the times of their effects, are those of all
		}
		v.Tolls = check.AddToll(v.Tolls, toll)
	}
	findings := append(check.All(p.index, limits), p.linear.Finding)
	for i := range findings {
		findings[i] = findings[i].In(h.Namespace)
	}
	return findings
}

// join adds the findings of one more namespace to the others, which are about the same invariants.
func (v *Verdict) join(findings []check.Finding) {
	if v.Findings == nil {
		v.Findings = findings
		return
	}
	for i := range findings {
		v.Findings[i] = v.Findings[i].Beside(findings[i])
	}
}

// Draw draws the ids that are not linearizable into files of dir, those of a namespace into a folder of its name.
func (v *Verdict) Draw(dir string) error {
	var errs []error
	for namespace, p := range v.parts {
		to := filepath.Join(dir, namespace)
		errs = append(errs, os.MkdirAll(to, 0o755))
		_, drawn := p.linear.WriteHTML(to)
		errs = append(errs, drawn)
	}
	return errors.Join(errs...)
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
	check.Held: "ok  ", check.Breached: "FAIL", check.NotExercised: "none",
}

// missing returns the text that follows the promise of an invariant that was not exercised: the observations that the
// run lacked.
func missing(f *check.Finding) string {
	if f.Outcome() == check.NotExercised {
		return ": not exercised, no " + strings.Join(f.Missing(), ", no ")
	}
	return ""
}

func (v *Verdict) tellBreaches(b *strings.Builder, breaches []check.Breach) {
	described := map[string]bool{}
	for i, breach := range breaches {
		if len(described) == shownBreaches && !described[breach.Namespace+"/"+breach.ID] {
			fmt.Fprintf(b, "          … and %d more\n", len(breaches)-i)
			return
		}
		task := breach.Namespace + "/" + breach.ID
		fmt.Fprintf(b, "     %4d %s: %s\n", i+1, strings.TrimPrefix(task, "/"), breach.What)
		if described[task] {
			continue // a task's timeline is shown once
		}
		described[task] = true
		for _, line := range v.timeline(&breach) {
			fmt.Fprintf(b, "               %s\n", line)
		}
	}
}

func (v *Verdict) timeline(b *check.Breach) []string {
	if p := v.parts[b.Namespace]; p != nil {
		return p.index.Timeline(b.ID, b.At, shownLines)
	}
	return nil
}
