package raftgroup

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
)

// restarted is a group of the voters a, b and c, whose processes start again.
type restarted struct {
	t       *testing.T
	wires   map[string]*raft.InmemTransport
	disks   map[string]memory
	machine map[string]*journalist
	began   time.Time
	leaders chan string // each replica that begins to lead
	change  func(*Config)
}

const beat = time.Second // the heartbeat timeout of restarted

// restart returns the group. The log of each replica has the entries one, two and three.
func restart(t *testing.T, change func(*Config)) *restarted {
	r := &restarted{
		t: t, wires: map[string]*raft.InmemTransport{}, disks: map[string]memory{}, machine: map[string]*journalist{},
		began: time.Now(), leaders: make(chan string, 16), change: change,
	}
	servers := raft.Configuration{}
	for _, id := range []string{"a", "b", "c"} {
		servers.Servers = append(servers.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
		_, r.wires[id] = raft.NewInmemTransport(raft.ServerAddress(id))
	}
	for id := range r.wires {
		r.disks[id] = newMemory()
		assert.NoError(t, r.disks[id].Stable().SetUint64([]byte("CurrentTerm"), 1))
		assert.NoError(t, r.disks[id].StoreLogs([]*raft.Log{
			{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(servers)},
			{Index: 2, Term: 1, Type: raft.LogCommand, Data: []byte("one")},
			{Index: 3, Term: 1, Type: raft.LogNoop},
			{Index: 4, Term: 1, Type: raft.LogCommand, Data: []byte("two")},
			{Index: 5, Term: 1, Type: raft.LogCommand, Data: []byte("three")},
		}))
	}
	return r
}

// open starts the process of a replica.
func (r *restarted) open(id string) *Group {
	r.t.Helper()
	r.machine[id] = &journalist{}
	cfg := Config{
		Name: "group 7", NodeID: id, Machine: r.machine[id], Storage: r.disks[id], Transport: r.wires[id], Existing: true,
		Timing: Timing{Heartbeat: beat, Election: beat, Lease: beat, Commit: beat, HeadStart: 2 * beat},
		Fatal:  func(err error) { r.t.Error(err) },
	}
	if r.change != nil {
		r.change(&cfg)
	}
	g, err := Open(cfg)
	assert.NoError(r.t, err)
	r.t.Cleanup(func() { closed(r.t, g) })
	for other := range r.machine {
		r.wires[id].Connect(raft.ServerAddress(other), r.wires[other])
		r.wires[other].Connect(raft.ServerAddress(id), r.wires[id])
	}
	g.Lead(func(ctx context.Context) {
		r.leaders <- id
		<-ctx.Done()
	})
	return g
}

// TestFirstElection checks which replica leads after a restart, and that it begins soon after a majority can vote for
// it.
func TestFirstElection(t *testing.T) {
	for name, c := range map[string]struct {
		preferred string
		first     string // replicas that start at once
		late      string // that starts after ten heartbeat timeouts
		want      string
		within    time.Duration
	}{
		"preferred":                 {"b", "abc", "", "b", beat / 10},
		"preferred, without a peer": {"b", "ab", "", "b", beat / 10},
		"preferred and late":        {"c", "a", "c", "c", 10*beat + beat/10},
		"preferred and away":        {"c", "ab", "", "a", 2*beat + beat/10},
		"none preferred":            {"", "abc", "", "a", beat / 10},
		"none preferred, one away":  {"", "bc", "", "b", beat/turns + beat/10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := restart(t, func(cfg *Config) { cfg.Preferred = c.preferred })
				for _, id := range c.first {
					r.open(string(id))
				}
				if c.late != "" {
					<-time.After(10 * beat)
					r.open(c.late)
				}
				if got := <-r.leaders; got != c.want || time.Since(r.began) > c.within {
					t.Errorf("%s leads after %v, want %s within %v", got, time.Since(r.began), c.want, c.within)
				}
			})
		})
	}
}

// TestReplayWithoutLeader checks that a replica applies what its previous process had applied before there is a leader,
// that it takes no snapshot meanwhile, and that it applies no entry twice afterwards.
func TestReplayWithoutLeader(t *testing.T) {
	for applied, want := range map[uint64]string{0: "[]", 1: "[]", 4: "[one two]", 9: "[one two three]"} {
		t.Run(fmt.Sprint(applied), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := restart(t, func(cfg *Config) { cfg.Applied = applied })
				g := r.open("a")
				synctest.Wait()
				if got := fmt.Sprint(r.machine["a"].lines); got != want {
					t.Fatalf("%s are applied without a leader, want %s", got, want)
				}
				if _, err := g.applier.Snapshot(); applied > 1 {
					assert.ErrorIs(t, err, errAhead)
				}
				r.open("b")
				r.open("c")
				<-r.leaders
				assert.NoError(t, g.Snapshot())
				answer, err := g.Commit(t.Context(), []byte("four"))
				if got := fmt.Sprint(r.machine["a"].lines); err != nil || answer != 4 || got != "[one two three four]" {
					t.Errorf("%s are applied; answer %v, %v", got, answer, err)
				}
				assert.NoError(t, g.Snapshot())
			})
		})
	}
}

// TestReplayEndsAtALeadersSnapshot checks that no entry of the log changes a state that a leader has sent.
func TestReplayEndsAtALeadersSnapshot(t *testing.T) {
	machine := &journalist{}
	a := newApplier(t.Context(), Config{Machine: machine}, func(err error) { t.Error(err) })
	command := func(index uint64, text string) *raft.Log {
		return &raft.Log{Index: index, Type: raft.LogCommand, Data: []byte(text)}
	}
	a.beginReplay(1)
	if !a.replay(command(2, "two")) {
		t.Error("the replay ends early")
	}
	assert.NoError(t, a.Restore(pageFile("two\nthree\nfour")))
	if a.replay(command(3, "three")) {
		t.Error("the replay goes on")
	}
	a.Apply(command(5, "five"))
	if got := fmt.Sprint(machine.lines); got != "[two three four five]" {
		t.Error(got)
	}
}

func pageFile(text string) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) }
