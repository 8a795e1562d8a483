package siege

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/vitals"
)

// Write writes report.md, report.json and vitalsFile to a folder.
func (r *Report) Write(dir string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "report.json"), append(data, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, "report.md"), []byte(r.Markdown()), 0o644),
		os.WriteFile(filepath.Join(dir, vitalsFile), vitals.CSV(r.series), 0o644),
	)
}

// Markdown returns the report for human readers.
func (r *Report) Markdown() string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("# Siege, seed %d: %s\n", r.Seed, r.word())
	r.tellRuns(say)
	r.tellVitals(say)
	r.tellNotJudged(say)
	r.tellSkipped(say)
	r.tellFailed(say)
	return b.String()
}

// tellRuns writes the summary, the circumstances, and the tables of invariants, faults and calls.
func (r *Report) tellRuns(say teller) {
	say("%s\n", r.summary())
	say("| | |\n| --- | --- |")
	say("| began | %s, took %v |", r.Began.UTC().Format(time.RFC3339), r.Took.Round(time.Second))
	say("| code | %s |", r.Version)
	say("| machine | %s |", r.Machine)
	say("| cluster | %d nodes, %d shards |\n", r.Nodes, r.Shards)
	r.tellInvariants(say)
	r.tellTolls(say)
	r.tellCalls(say)
}

func (r *Report) word() string {
	switch n := len(r.Unexercised()); {
	case !r.OK():
		return "FAILED"
	case n == 1:
		return "held, as far as it was exercised: 1 invariant was not"
	case n > 1:
		return fmt.Sprintf("held, as far as it was exercised: %d invariants were not", n)
	}
	return "held"
}

// summary returns two sentences about the siege.
func (r *Report) summary() string {
	failed := 0
	for _, round := range r.Rounds {
		if !round.OK {
			failed++
		}
	}
	t := r.Tasks
	return fmt.Sprintf("%d rounds, %d of them failed; %d faults. Of %d acknowledged tasks %d were delivered, "+
		"%d ended by a later call, %d dead letters, %d still waiting, %d in doubt, %d not read, %d lost.",
		len(r.Rounds), failed, r.Struck(), t.Acknowledged, t.Delivered, t.Ended, t.Dead, t.Waiting, t.Doubtful, t.Unread,
		t.Lost)
}

type teller func(format string, args ...any)

func (r *Report) tellInvariants(say teller) {
	say("## Invariants\n\nAn invariant is held if the run had each kind of case that could break it, and none did. An " +
		"invariant that lacks a kind of case is not exercised: the siege shows nothing about it.\n")
	say("| # | promise | | observed | figures |\n| --- | --- | --- | --- | --- |")
	for _, f := range r.Findings {
		word := string(r.outcome(&f))
		switch r.outcome(&f) {
		case check.Breached:
			word = fmt.Sprintf("**%d breaches**", r.Breaches[f.Invariant])
		case check.NotExercised:
			word = "**not exercised**"
		}
		figures := f.Figures.String()
		if strings.Contains(figures, figuresEnd) {
			figures = "see below"
		}
		say("| %s | %s | %s | %s | %s |", f.Invariant, f.Promise, word, observed(&f), figures)
	}
	say("")
	for _, f := range r.Findings {
		if parts := strings.Split(f.Figures.String(), figuresEnd); len(parts) > 1 {
			say("Figures of invariant %s:\n\n- %s\n", f.Invariant, strings.Join(parts, "\n- "))
		}
	}
}

// figuresEnd separates figures that are too many for a table cell.
const figuresEnd = " | "

func observed(f *check.Finding) string {
	var words []string
	for _, o := range f.Observed {
		words = append(words, o.String())
	}
	return strings.Join(words, "; ")
}

func (r *Report) tellTolls(say teller) {
	say("## Faults\n\nSeveral faults are under way at once. A task counts with each fault that was under way when it " +
		"came.\n")
	say("| fault | count | held, mean | late p50 | p99 | max | repeats | 5xx | slowest schedule | heals in, mean | max |")
	say("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	slices.SortFunc(r.Tolls, func(a, b check.Toll) int { return strings.Compare(a.Kind, b.Kind) })
	for _, t := range r.Tolls {
		say("| %s | %d | %s | %s | %s | %s | %d | %d | %s | %s | %s |", t.Kind, t.Count, mean(t.Held),
			short(t.Late.Quantile(50)), short(t.Late.Quantile(99)), short(t.Late.Max), t.Repeats, t.Refused, longest(t.Calls),
			mean(t.Heal), longest(t.Heal))
	}
	say("")
}

func (r *Report) tellCalls(say teller) {
	say("## Calls\n\n| call | ok | failed | unknown |\n| --- | ---: | ---: | ---: |")
	for _, kind := range slices.Sorted(maps.Keys(r.Calls)) {
		n := r.Calls[kind]
		say("| %s | %d | %d | %d |", kind, n.OK, n.Failed, n.Unknown)
	}
	say("\n%d attempts arrived; %d lines of level error in the nodes' logs.\n", r.Arrivals, r.Errors)
}

func (r *Report) tellSkipped(say teller) {
	if len(r.Skipped) == 0 {
		return
	}
	say("## Skipped\n")
	for _, skipped := range r.Skipped {
		say("- %s", skipped)
	}
	say("")
}

func (r *Report) tellFailed(say teller) {
	for _, round := range r.Rounds {
		if round.OK {
			continue
		}
		say("## Round %d failed\n\nIts record and the nodes' logs are in `%s`. The same choices again: `%s`. Timing is not "+
			"repeated.\n\n```\n%s```\n", round.N, round.Dir, r.replay(round), round.Verdict)
	}
	for _, what := range r.After {
		say("## After the last verdict\n\n```\n%s\n```\n", what)
	}
}

func (r *Report) replay(round *RoundReport) string {
	args := []string{"go run ./chaos/cmd/siege", fmt.Sprintf("--seed %d --round %d", r.Seed, round.N)}
	args = append(args, fmt.Sprintf("--nodes %d --shards %d", r.Nodes, r.Shards))
	if len(r.Chosen) > 0 {
		args = append(args, fmt.Sprintf("--faults %q", strings.Join(r.Chosen, ",")))
	}
	if r.Drills > 0 {
		args = append(args, "--for="+r.Drills.String()) // with the same length, the round is the same drill again
	}
	return strings.Join(append(args, r.Flags...), " ")
}

// Tell writes a short form of the report.
func (r *Report) Tell(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "siege %s: %s\n", r.word(), r.summary())
	for _, f := range r.Findings {
		if n := r.Breaches[f.Invariant]; n > 0 {
			fmt.Fprintf(&b, "  invariant %s, %s: %d breaches\n", f.Invariant, f.Promise, n)
		}
	}
	for _, f := range r.Unexercised() {
		fmt.Fprintf(&b, "  invariant %s, %s: not exercised, no %s\n", f.Invariant, f.Promise,
			strings.Join(f.Missing(), ", no "))
	}
	for _, round := range r.Rounds {
		if !round.OK {
			fmt.Fprintf(&b, "  round %d: see %s; again: %s\n", round.N, round.Dir, r.replay(round))
		}
	}
	for _, what := range r.After {
		fmt.Fprintf(&b, "  after the last verdict: %s\n", what)
	}
	for _, t := range r.swollen() {
		fmt.Fprintf(&b, "  %s\n", growth(t))
	}
	for _, what := range r.notJudged() {
		fmt.Fprintf(&b, "  not judged: %s\n", what)
	}
	for _, skipped := range r.Skipped {
		word := "NOT TESTED" // the machine lacks a requirement
		if skipped.Chosen {
			word = "left out"
		}
		fmt.Fprintf(&b, "  %s: %s\n", word, skipped)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func mean(s check.Spread) string {
	if s.Count == 0 {
		return "–"
	}
	return short(s.Mean())
}

func longest(s check.Spread) string {
	if s.Count == 0 {
		return "–"
	}
	return short(s.Max)
}

// short formats a time with about three digits.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
