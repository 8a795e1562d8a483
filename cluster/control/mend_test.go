package control

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/reshape"
	"github.com/belfryhq/belfry/internal/assert"
)

// silent are shards whose leaders do not answer.
type silent struct{ idleShards }

func (silent) Members(context.Context, uint32, *clusterpb.MembersCall) (*clusterpb.Membership, error) {
	return nil, errors.New("no answer")
}

func (silent) Leader(uint32) string { return "" }

// faulty are such shards with some faults.
type faulty struct {
	silent

	mu     sync.Mutex
	faults []Fault
	unfit  []string
}

func (f *faulty) Faults(context.Context) []Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.faults)
}

func (f *faulty) Fit(_ uint32, node string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !slices.Contains(f.unfit, node)
}

func mendEntry(shard uint32, revision uint64, node string) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Version: Version, Op: &clusterpb.ControlEntry_Mend{
		Mend: &clusterpb.Mend{Shard: shard, Revision: revision, Node: node},
	}}
}

// TestMendEntry checks when a replica may be mended.
func TestMendEntry(t *testing.T) {
	three := &clusterpb.ControlState{ClusterId: "c", CommandVersion: Version, Shards: []*clusterpb.Shard{
		{Id: 1, Replicas: []string{"a", "b", "c"}, Revision: 4}, {Id: 2, Replicas: []string{"a", "b", "c"}},
		{Id: 3, Replicas: []string{"a", "b"}},
	}}
	busy := shallowCopy(three)
	assert.NoError(t, applyMend(busy, mendEntry(1, 4, "b").GetMend()))
	if s := busy.Shards[0]; s.Mending != "b" || s.MendingSince != 4 || !slices.Equal(s.Target, s.Replicas) {
		t.Errorf("%v", s)
	}
	assert.Equal(t, three.Shards[0].Mending, "", "the earlier state has changed")
	for name, c := range map[string]struct {
		state *clusterpb.ControlState
		entry *clusterpb.ControlEntry
	}{
		"an old revision":  {three, mendEntry(1, 3, "b")},
		"no replica":       {three, mendEntry(1, 4, "d")},
		"no shard":         {three, mendEntry(9, 0, "a")},
		"two replicas":     {three, mendEntry(3, 0, "a")},
		"two at once":      {busy, mendEntry(2, 0, "a")},
		"two of one shard": {busy, mendEntry(1, 4, "a")},
	} {
		_, _, err := apply(c.state, marshal(t, c.entry))
		assert.ErrorIs(t, err, ErrRefused, "%s", name)
	}
	settle := &clusterpb.Retarget{Shards: []*clusterpb.Shard{{Id: 1}}}
	if err := applyRetarget(busy, settle); err != nil || busy.Shards[0].Mending != "" {
		t.Errorf("after the move: %v, %v", busy.Shards[0], err)
	}
}

// TestMenderWaits checks that a fault is left alone while it is new, while the others are no majority, while another
// one is being mended, and for a while after it was mended.
func TestMenderWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shards := &faulty{}
		g := single(t, silent{})
		for _, id := range []string{"b", "c"} {
			assert.NoError(t, g.Register(t.Context(), &clusterpb.Node{Id: id, CommandVersion: Version, Boot: 1}))
		}
		for _, id := range []uint32{1, 2} {
			entry := &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_Assign{
				Assign: &clusterpb.Assign{Shard: id, Replicas: []string{"a", "b", "c"}},
			}}
			_, err := g.propose(t.Context(), entry)
			assert.NoError(t, err)
		}
		m, now := newMender(g), time.Now()
		m.shards, m.calm = shards, time.Minute
		look := func(what string, after time.Duration, want string) {
			t.Helper()
			now = now.Add(after)
			m.look(t.Context(), now)
			if got := g.State().Shards[0].Mending + g.State().Shards[1].Mending; got != want {
				t.Errorf("%s: %q is mended, want %q", what, got, want)
			}
		}
		settle := func() {
			t.Helper()
			entry := &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_Retarget{
				Retarget: &clusterpb.Retarget{Shards: []*clusterpb.Shard{{Id: 1}, {Id: 2}}},
			}}
			_, err := g.propose(t.Context(), entry)
			assert.NoError(t, err)
		}
		shards.faults = []Fault{{1, "b", "bad"}}
		look("new", 0, "")
		shards.unfit = []string{"c"}
		look("the others are no majority", time.Hour, "")
		shards.unfit, shards.faults = nil, []Fault{{1, "b", "bad"}, {1, "c", "bad"}}
		look("two of three are faulty", time.Hour, "")
		shards.faults = []Fault{{1, "b", "bad"}}
		look("it is time", time.Hour, "b")
		shards.faults = []Fault{{1, "b", "bad"}, {2, "c", "bad"}}
		look("another one", time.Hour, "b")
		look("still the first one", time.Hour, "b")
		settle()
		look("again, after hours", 0, "b")
		settle()
		shards.faults = []Fault{{1, "b", "bad"}}
		look("again, soon", time.Minute, "")
		look("again, later", mendAgain, "b")
	})
}

// TestLeadersAreBalancedByLoad gives two shards of one leader all the load. One of them gets another leader, after a
// while of measuring, and no third exchange follows.
func TestLeadersAreBalancedByLoad(t *testing.T) {
	s := newShaped(t, "a", "b", "c")
	var busy []uint32
	for _, shard := range s.state.Shards {
		if shard.Preferred == "b" && len(busy) < 2 {
			busy = append(busy, shard.Id)
		}
	}
	long := func(string) reshape.Sight { return reshape.Sight{Up: true, For: time.Hour} }
	var measured loads
	commands := make(map[uint32]uint64)
	now, exchanges := time.UnixMilli(1), 0
	for range 40 {
		for _, shard := range s.state.Shards {
			commands[shard.Id] += 10
		}
		for _, id := range busy {
			commands[id] += 3000
		}
		measured.note(commands, now)
		if op := measured.balance(s.state, reshape.Nodes(s.state, long, reshape.Limits{}), now); op != nil {
			if now.Before(time.UnixMilli(1).Add(loadSure)) {
				t.Error("exchanged too early")
			}
			exchanges++
			s.state = mustApply(t, s.state, &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_Retarget{Retarget: op}})
			s.arrive()
			s.settle()
		}
		now = now.Add(loadLook)
	}
	leaders := map[string]bool{}
	for _, id := range busy {
		leaders[Shard(s.state, id).Preferred] = true
	}
	if exchanges != 1 || len(leaders) != 2 {
		t.Errorf("%d exchanges, the busy shards are led by %v", exchanges, leaders)
	}
}
