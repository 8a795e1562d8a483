package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/bench/belfry"
	"github.com/belfryhq/belfry/bench/peers"
	"github.com/belfryhq/belfry/bench/report"
	"github.com/belfryhq/belfry/bench/subject"
)

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

// entries returns all subjects, with the reference of the ratios first.
func entries(binary string, flight bool) []entry {
	all := []entry{
		{subject: belfry.New(belfry.Config{Name: report.Client, Binary: binary, Flight: flight})},
		{
			subject:   belfry.New(belfry.Config{Name: report.Single, Binary: binary, Single: true}),
			workloads: []string{"schedule", "schedule-many", "cancel"},
		},
		{
			subject:   belfry.New(belfry.Config{Name: report.Twelve, Binary: binary, Args: []string{"--shards", "12"}}),
			workloads: []string{"schedule", "schedule-many", "schedule-batch", "lateness", "burst", "idle"},
		},
		{
			subject:   belfry.New(belfry.Config{Name: report.Keyed, Binary: binary, Flight: flight, Keys: true}),
			workloads: []string{"neighbours"},
		},
	}
	for _, peer := range peers.All() {
		all = append(all, entry{subject: peer, peer: true})
	}
	for _, peer := range peers.ForLateness() {
		all = append(all, entry{subject: peer, peer: true, workloads: []string{"lateness", "burst"}})
	}
	return all
}

// chosen returns the subjects whose name contains one of the words.
func chosen(all []entry, words []string) []entry {
	if len(words) == 0 {
		return all
	}
	var kept []entry
	for _, e := range all {
		name := strings.ToLower(e.subject.Name())
		if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(name, strings.ToLower(w)) }) {
			kept = append(kept, e)
		}
	}
	return kept
}

const module = "github.com/belfryhq/belfry"

// build builds belfry as users get it: with the dependencies of its own module, not with those of the bench.
func build(ctx context.Context, dir string) (string, error) {
	folder, err := run(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "belfry")
	_, err = run(ctx, "go", "build", "-C", folder, "-o", binary, module+"/cmd/belfry")
	return binary, err
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
