package siege

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/chaos/verdict"
)

// judge judges the round. It deletes the round's record if every invariant held, unless Config.Keep is set. The nodes
// run meanwhile: their later log lines and deaths count with the next round, or with the end of the siege.
func (r *Round) judge() (*RoundReport, error) {
	h := r.rec.History()
	v := verdict.Of(r.title(), h, r.siege.cfg.Limits)
	alarms, err := r.siege.stand.Logs.Alarms()
	if err != nil {
		return nil, err
	}
	v.Findings = append(v.Findings, r.findingsBeyondRecord(h, alarms)...)
	report := r.sum(h, v, alarms)
	if v.OK() && !r.siege.cfg.Keep {
		return report, os.RemoveAll(r.dir)
	}
	err = os.WriteFile(filepath.Join(r.dir, "verdict.txt"), []byte(v.String()), 0o644)
	return report, errors.Join(err, v.Draw(r.dir), r.siege.stand.Logs.Save(r.dir))
}

func (r *Round) title() string {
	switch title := fmt.Sprintf("seed %d, round %d", r.siege.cfg.Seed, r.n); {
	case r.siege.cfg.Plan != nil:
		return r.plan.Name
	case r.plan != nil:
		return title + ", " + r.plan.Name
	default:
		return title
	}
}

// findingsBeyondRecord returns the findings that need more than the record: about the nodes' deaths and logs, late
// arrivals, the healed cluster, and nodes with failing disks.
func (r *Round) findingsBeyondRecord(h *history.History, alarms stand.Alarms) []check.Finding {
	return []check.Finding{r.nodes(h, alarms), r.strangers(), r.whole(h), r.ends(h)}
}

// nodes returns the finding about the nodes' processes.
func (r *Round) nodes(h *history.History, alarms stand.Alarms) check.Finding {
	f := check.Finding{Invariant: "+", Promise: "no node dies by itself, panics, or races"}
	explained, cut := 0, 0
	for _, d := range r.siege.deaths.take() {
		at := r.rec.Instant(d.at)
		if explains(h.Faults, d.node, at) {
			explained++
			continue
		}
		if alarms.Cut[d.node] > 0 && mayHaveDeposed(h.Faults, at) {
			alarms.Cut[d.node]--
			cut++
			continue
		}
		f.Breaches = append(f.Breaches, check.Breach{
			At: at, What: d.cause + "; the end of its log:\n" + r.siege.stand.Logs.Tail(d.node),
		})
	}
	for _, text := range alarms.Worse {
		f.Breaches = append(f.Breaches, check.Breach{What: text})
	}
	f.Observe(alarms.Lines, "lines of the nodes' logs read")
	f.Figures = check.NewFigures("%d deaths by themselves that a fault explains, %d to start from a log that was cut; "+
		"%d lines of level error in the logs", explained, cut, alarms.Errors)
	return f
}

// mayHaveDeposed reports whether any fault had struck at the given time. A fault that deposes a leader may leave
// uncommitted entries in the leader's log, which the next leader's snapshot contradicts.
func mayHaveDeposed(struck []history.Fault, at history.Instant) bool {
	return slices.ContainsFunc(struck, func(f history.Fault) bool { return f.Struck <= at })
}

// late is the time after the mending of a fault within which the fault may still explain a death.
const late = 5 * time.Second

// explains reports whether a fault that struck the node explains that its process ended by itself.
func explains(struck []history.Fault, node string, at history.Instant) bool {
	kinds := faults.Kinds()
	for _, f := range struck {
		i := slices.IndexFunc(kinds, func(k faults.Kind) bool { return k.Name == f.Kind })
		over := f.Mended != 0 && at > f.Mended.Add(late)
		if i >= 0 && kinds[i].Death != faults.Lives && slices.Contains(f.Nodes, node) && at >= f.Struck && !over {
			return true
		}
	}
	return false
}

// strangers returns the finding about attempts of tasks of former rounds, which had all come to rest.
func (r *Round) strangers() check.Finding {
	f := check.Finding{Invariant: "9b", Promise: "no task of an earlier round is attempted again"}
	came := r.siege.receiver.Strangers()
	for _, id := range came[r.siege.strangers:] {
		f.Breaches = append(f.Breaches, check.Breach{ID: id, What: "an attempt came, after its round had come to rest"})
	}
	f.Observe(r.siege.rested, "tasks of rounds before, at rest")
	f.Figures = check.NewFigures("%d attempts", len(came)-r.siege.strangers)
	r.siege.strangers = len(came)
	return f
}

// whole returns the finding about the cluster after everything was healed.
func (r *Round) whole(h *history.History) check.Finding {
	f := check.Finding{
		Invariant: "13c", Promise: "a healed cluster is whole", Breaches: r.failed,
		Figures: check.NewFigures("%d failures", len(r.failed)),
	}
	heals := 0
	if r.waited && len(h.Faults) > 0 {
		heals = 1
	}
	f.Observe(heals, "times that a cluster was healed after faults")
	return f
}

// ends returns the finding about nodes that must end by themselves. A node that wrote nothing during such a fault may
// live on.
func (r *Round) ends(h *history.History) check.Finding {
	kinds, struck := faults.Kinds(), 0
	for _, f := range h.Faults {
		if slices.ContainsFunc(kinds, func(k faults.Kind) bool { return k.Name == f.Kind && k.Death == faults.MustEnd }) {
			struck++
		}
	}
	f := check.Finding{
		Invariant: "13d", Promise: "a node ends when its disk fails", Breaches: r.survivors,
		Figures: check.NewFigures("%d nodes lived on", len(r.survivors)),
	}
	f.Observe(struck, "faults by which a node must end")
	return f
}

// sum returns the round's part of the report.
func (r *Round) sum(h *history.History, v *verdict.Verdict, alarms stand.Alarms) *RoundReport {
	report := &RoundReport{
		N: r.n, Took: time.Since(r.began), OK: v.OK(), Drill: r.plan != nil && r.siege.cfg.Plan == nil,
		Rate: rate(h.Arrivals), Sum: Sum{
			Tasks: v.Fates, Calls: countCalls(h),
			Arrivals: len(h.Arrivals) + len(h.Occurrences) + len(h.FollowUps), Struck: len(h.Faults),
			Errors: alarms.Errors, Tolls: v.Tolls, Findings: v.Findings,
		},
	}
	if !v.OK() {
		report.Dir, report.Verdict = r.dir, v.String()
	}
	return report
}

// rate returns the number of arrivals in the median of the seconds in which any came.
func rate(arrivals []history.Arrival) int {
	seconds := map[time.Duration]int{}
	for i := range arrivals {
		seconds[time.Duration(arrivals[i].At).Truncate(time.Second)]++
	}
	if len(seconds) == 0 {
		return 0
	}
	counts := slices.Sorted(maps.Values(seconds))
	return counts[len(counts)/2]
}

func countCalls(h *history.History) map[history.Kind]CallCount {
	counts := map[history.Kind]CallCount{}
	for i := range h.Calls {
		c := &h.Calls[i]
		n := counts[c.Kind]
		switch c.Outcome {
		case history.OK:
			n.OK++
		case history.Failed:
			n.Failed++
		default:
			n.Unknown++
		}
		counts[c.Kind] = n
	}
	return counts
}
