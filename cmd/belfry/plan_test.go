package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cmd/belfry/internal/capacity"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/internal/assert"
)

func TestPlanAsJSON(t *testing.T) {
	t.Parallel()
	out, err := printed(t, "plan", "--tasks", "1e9", "--rate", "200k", "--payload", "300", "--json")
	assert.NoError(t, err)
	var p capacity.Plan
	assert.NoError(t, json.Unmarshal([]byte(out), &p))
	if w := p.Workload; w.Tasks != 1e9 || w.Rate != 200e3 || w.Fires != w.Rate || w.Payload != 300 || p.Machine.Memory != 64<<30 {
		t.Errorf("%+v on %+v", w, p.Machine)
	}
	if p.Nodes < 5 || len(p.Needs) == 0 || len(p.Warnings) == 0 || len(p.Serve) != 1 {
		t.Errorf("%+v", p)
	}
}

// The error of a wrong argument has the flag's name and counts as the caller's mistake.
func TestPlanRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ flag, value, want string }{
		{"--tasks", "many", `--tasks: "many" is not a number such as 1000, 200k, 1.5M or 1e9`},
		{"--node-memory", "64gig", `--node-memory: "64gig" is not a size such as 300, 2KiB, 64GiB or 500GB`},
		{"--tasks", "0", "--tasks is 0: 1 to 1e12"},
		{"--payload", "1MiB", "--payload is 1048576: 0 to 262144 bytes, 256KiB"},
		{"--replication", "2", "--replication is 2: 1, 3 or 5"},
	} {
		_, err := printed(t, "plan", c.flag, c.value)
		var usage *cli.UsageError
		if !errors.As(err, &usage) || err.Error() != c.want {
			t.Errorf("%s %s: %v, want %s", c.flag, c.value, err, c.want)
		}
	}
}

// The commands that a plan prints must be commands that serve accepts.
func TestPlansCanBeRun(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"--tasks", "100M"}, {"--replication", "1"}} {
		out, err := printed(t, append([]string{"plan", "--json"}, args...)...)
		var p capacity.Plan
		if err := errors.Join(err, json.Unmarshal([]byte(out), &p)); err != nil || len(p.Serve) == 0 {
			t.Fatalf("%v: %v, %v", args, p.Serve, err)
		}
		for _, command := range p.Serve {
			words := strings.Fields(command)
			if serve := newServe(); words[0] != "belfry" || words[1] != "serve" || serve.ParseFlags(words[2:]) != nil {
				t.Errorf("%v: %s", args, command)
			}
		}
	}
}

// Every cost is listed with its method of measurement.
func TestPlanCosts(t *testing.T) {
	t.Parallel()
	out, err := printed(t, "plan", "--costs")
	assert.NoError(t, err)
	for _, c := range capacity.Measured() {
		if !strings.Contains(out, c.Name) || !strings.Contains(out, c.How) {
			t.Errorf("%s is not in\n%s", c.Name, out)
		}
	}
}

// The plan must know the limit that the cluster sets.
func TestPlanKnowsMaxShards(t *testing.T) {
	t.Parallel()
	if capacity.MaxShards != cluster.MaxShards {
		t.Errorf("%d shards in a plan, %d in a cluster", capacity.MaxShards, cluster.MaxShards)
	}
}
