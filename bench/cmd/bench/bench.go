package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/bench/belfry"
	"github.com/belfryhq/belfry/bench/peers"
	"github.com/belfryhq/belfry/bench/report"
	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/bench/workload"
)

// bench is a run in progress.
type bench struct {
	options   *options
	out       io.Writer
	dir       string // parent of the services' folders
	subjects  []entry
	workloads []workload.Workload
	run       report.Run
	suffix    string // of the names of the baseline's subjects; empty: no baseline is measured
}

func newBench(cmd *cobra.Command, o *options, workloads []workload.Workload) (*bench, error) {
	dir, err := os.MkdirTemp(o.dir, "belfry-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, out: cmd.OutOrStdout(), dir: dir, workloads: workloads}
	if err := b.prepare(cmd.Context()); err != nil {
		b.clean()
		return nil, err
	}
	return b, nil
}

func (b *bench) prepare(ctx context.Context) error {
	built, err := b.build(ctx)
	if err != nil {
		return err
	}
	b.run = report.Run{Commit: commit(ctx), Date: time.Now()}
	if b.run.Machine, err = machine(ctx, b.dir); err != nil {
		return err
	}
	if b.run.Sizes, err = json.Marshal(b.options.sizes); err != nil {
		return err
	}
	b.run.Workloads = b.workloads
	b.suffix = built.suffix()
	for _, e := range chosen(entries(built, b.options.flight), b.options.subjects) {
		b.take(e)
	}
	if len(b.subjects) == 0 {
		return errors.New("there is no service to measure; see --list")
	}
	return nil
}

// take adds a subject to the run, or prints which prerequisite is missing.
func (b *bench) take(e entry) {
	s := report.Subject{Name: e.subject.Name, Promise: e.subject.Promise, Missing: e.subject.Missing()}
	b.run.Subjects = append(b.run.Subjects, s)
	if s.Missing != "" {
		b.say("*** NOT MEASURED: %s: %s ***", s.Name, s.Missing)
		return
	}
	b.subjects = append(b.subjects, e)
}

func (b *bench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.out, format+"\n", args...) // there is no other place to report a failed write
}

// rounds measures everything as often as the options say. In each round, every workload measures all subjects in turn,
// so that changes on the machine affect all of them. It writes the results after each workload, because a whole run
// takes hours.
func (b *bench) rounds(ctx context.Context) error {
	for round := 1; round <= b.options.rounds; round++ {
		for _, w := range b.workloads {
			if err := errors.Join(b.round(ctx, round, w), b.write()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) round(ctx context.Context, round int, w workload.Workload) error {
	for i, e := range b.subjects {
		if !e.takes(w.Name) {
			continue
		}
		b.say("--- round %d of %d, %s: %s", round, b.options.rounds, w.Name, e.subject.Name)
		m, err := b.measure(ctx, w, e.subject, fmt.Sprintf("%d-%s-%d", round, w.Name, i))
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.Round = round
		b.run.Measured = append(b.run.Measured, m)
		b.printFigures(w, m)
	}
	return nil
}

func (b *bench) write() error {
	if len(b.run.Measured) == 0 {
		return nil
	}
	return b.run.Write(b.options.out)
}

// measure runs one workload in a folder of its own. It removes the folder afterwards unless the options keep it.
func (b *bench) measure(
	ctx context.Context, w workload.Workload, s subject.Subject, name string,
) (m workload.Measured, err error) {
	limit := b.options.limit
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %v", limit))
	defer cancel()
	dir := filepath.Join(b.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return m, err
	}
	m = w.Measure(ctx, s, b.options.sizes, dir, func(line string) { b.say("    %s", line) })
	if b.options.keep {
		return m, nil
	}
	return m, os.RemoveAll(dir)
}

// printFigures prints the figures of one measurement.
func (b *bench) printFigures(w workload.Workload, m workload.Measured) {
	switch {
	case m.Cannot != "":
		b.say("    %s", m.Cannot)
	case m.Failed != "":
		b.say("    FAILED: %s", m.Failed)
	}
	for _, kind := range w.Figures {
		if value, ok := m.Values[kind.Key]; ok {
			b.say("    %-32s %s %s", kind.Title, strconv.FormatFloat(value, 'f', -1, 64), kind.Unit)
		}
	}
	if share, ok := m.Usage.LoadShare(); ok {
		b.say("    the load used %.0f %% of the processor time that both used", 100*share)
	}
}

func (b *bench) clean() {
	if b.options.keep {
		b.say("data and logs: %s", b.dir)
		return
	}
	if err := os.RemoveAll(b.dir); err != nil {
		b.say("%v", err)
	}
}

// entry is a subject and the workloads that measure it.
type entry struct {
	subject   subject.Subject
	workloads []string // nil: all
	peer      bool     // another service than Belfry
}

func (e entry) takes(workload string) bool {
	if e.peer && report.Alone(workload) {
		return false
	}
	return e.workloads == nil || slices.Contains(e.workloads, workload)
}

// builds are the programs to measure.
type builds struct {
	present          string // path
	baseline, commit string // path of the program of an earlier commit; empty: none is measured
}

// suffix ends the names of the baseline's subjects.
func (b builds) suffix() string {
	if b.baseline == "" {
		return ""
	}
	return " at " + b.commit
}

// entries returns all subjects, with the reference of the ratios first.
func entries(b builds, flight bool) []entry {
	all := ours(b.present, "", flight)
	if b.baseline != "" {
		all = append(all, ours(b.baseline, b.suffix(), flight)...)
	}
	for _, peer := range peers.All() {
		all = append(all, entry{subject: peer, peer: true})
	}
	for _, peer := range peers.ForLateness() {
		all = append(all, entry{subject: peer, peer: true, workloads: []string{"lateness", "burst"}})
	}
	delayed := []string{"schedule", "schedule-many", "lateness", "burst"}
	for _, peer := range peers.OfDelayedMessages(b.present) {
		all = append(all, entry{subject: peer, peer: true, workloads: delayed})
	}
	return all
}

// ours returns the subjects of one program. Their names end in suffix.
func ours(binary, suffix string, flight bool) []entry {
	return []entry{
		{subject: belfry.Subject(belfry.Config{Name: report.Client + suffix, Binary: binary, Flight: flight})},
		{
			subject:   belfry.Subject(belfry.Config{Name: report.Single + suffix, Binary: binary, Single: true}),
			workloads: []string{"schedule", "schedule-many", "touch-calls", "cancel"},
		},
		{
			subject: belfry.Subject(belfry.Config{
				Name: report.Twelve + suffix, Binary: binary, Args: []string{"--shards", "12"},
			}),
			workloads: []string{"schedule", "schedule-many", "schedule-batch", "lateness", "burst", "idle"},
		},
		{
			subject:   belfry.Subject(belfry.Config{Name: report.Keyed + suffix, Binary: binary, Flight: flight, Keys: true}),
			workloads: []string{"neighbours"},
		},
	}
}

// chosen returns the subjects whose name contains one of the words.
func chosen(all []entry, words []string) []entry {
	if len(words) == 0 {
		return all
	}
	var kept []entry
	for _, e := range all {
		name := strings.ToLower(e.subject.Name)
		if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(name, strings.ToLower(w)) }) {
			kept = append(kept, e)
		}
	}
	return kept
}

const module = "github.com/belfryhq/belfry"

// build builds the programs to measure as users get them: with the dependencies of Belfry's own module, not with those
// of the bench.
func (b *bench) build(ctx context.Context) (builds, error) {
	built := builds{present: b.options.binary}
	folder, err := run(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return built, err
	}
	if built.present == "" {
		built.present = filepath.Join(b.dir, "belfry")
		err = buildIn(ctx, folder, built.present)
	}
	if err != nil || b.options.baseline == "" {
		return built, err
	}
	if built.commit, err = run(ctx, "git", "-C", folder, "rev-parse", "--short", b.options.baseline); err != nil {
		return built, fmt.Errorf("baseline: %w", err)
	}
	tree := filepath.Join(b.dir, "baseline")
	if _, err := run(ctx, "git", "-C", folder, "worktree", "add", "--detach", tree, built.commit); err != nil {
		return built, fmt.Errorf("baseline: %w", err)
	}
	built.baseline = filepath.Join(b.dir, "belfry-"+built.commit)
	err = buildIn(ctx, tree, built.baseline)
	_, gone := run(ctx, "git", "-C", folder, "worktree", "remove", "--force", tree)
	return built, errors.Join(err, gone)
}

// buildIn builds the belfry of a source tree as its releases are built.
func buildIn(ctx context.Context, tree, binary string) error {
	command := []string{"go", "build", "-C", tree, "-trimpath", "-o", binary}
	profile := filepath.Join("deploy", "release.pgo")
	if _, err := os.Stat(filepath.Join(tree, profile)); err == nil { // older trees have none
		command = append(command, "-pgo", profile)
	}
	_, err := run(ctx, append(command, module+"/cmd/belfry")...)
	return err
}

// run runs a command and returns its output.
func run(ctx context.Context, command ...string) (string, error) {
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
