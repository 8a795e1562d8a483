package witness

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/internal/assert"
)

// world answers for the nodes of a cluster that is up.
type world map[string]*clusterpb.WitnessReply

func (world) Known() []string { return nil }

func (world) Name(string) string { return "" }

func (w world) Ask(_ context.Context, node string, _ *clusterpb.WitnessRequest) (*clusterpb.WitnessReply, error) {
	if reply := w[node]; reply != nil {
		reply.Node, reply.Seen = node, &clusterpb.SeenNode{Node: "self"}
		return reply, nil
	}
	return nil, errors.New("it is gone")
}

func (w world) AskAddr(context.Context, string, *clusterpb.WitnessRequest) (*clusterpb.WitnessReply, error) {
	return nil, errors.New("no process is there")
}

// remembered is a world of which this node remembers some nodes.
type remembered struct {
	world
	known []string
}

func (r remembered) Known() []string { return r.known }

// absent returns the check of a node whose folder knows the voters a and b. It was away since entry 100.
func absent(w world, known ...string) *Check {
	replica := func(joined uint64) Replica {
		return Replica{Joined: joined, Voters: []string{"a", "b", "self"}, Holds: func(uint64, uint64) bool { return true }}
	}
	return NewCheck(CheckConfig{
		Node: "self", Run: Run{Boot: 2, Nonce: 1}, Applied: 100, Nodes: remembered{w, known},
		Replicas: map[uint32]Replica{0: replica(0), 1: replica(0), 2: replica(3), 3: replica(3)},
		Logger:   slog.New(slog.DiscardHandler),
	})
}

// later is the place of the nodes long after. Shard 1 has moved away from self, shard 2 has moved away and back, and
// shard 3 is still there.
func later(applied uint64) *clusterpb.Standing {
	return &clusterpb.Standing{Applied: applied, Voters: []string{"d", "e", "f"}, Shards: []*clusterpb.Shard{
		{Id: 1, Replicas: []string{"d", "e", "f"}, Revision: 6},
		{Id: 2, Replicas: []string{"d", "e", "self"}, Revision: 9, Joined: map[string]uint64{"self": 8}},
		{Id: 3, Replicas: []string{"d", "f", "self"}, Revision: 9, Joined: map[string]uint64{"self": 3}},
	}}
}

func run(t *testing.T, c *Check) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return c.Run(ctx)
}

// TestReturnAfterTheVotersHaveGone checks that a node whose voters are all gone takes part once a majority of the
// present voters has answered, and that it knows which of its replicas are no more.
func TestReturnAfterTheVotersHaveGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := absent(world{"d": {Standing: later(200)}, "e": {Standing: later(150)}}, "d")
		if err := run(t, c); err != nil {
			t.Fatalf("%v: %s", err, c.Status())
		}
		if over := c.Over(); len(over) != 2 || over[2] != 3 {
			t.Errorf("removed: %v", over)
		}
		if nodes := c.nodes(); !slices.Contains(nodes, "f") {
			t.Errorf("asked: %v", nodes)
		}
	})
}

// TestReturnWaitsForThePresentVoters checks that a minority of the present voters is not enough, and that a standing
// which is older than the folder is ignored.
func TestReturnWaitsForThePresentVoters(t *testing.T) {
	for name, w := range map[string]world{
		"a minority":              {"d": {Standing: later(200)}},
		"older than the folder":   {"d": {Standing: later(99)}, "e": {Standing: later(99)}, "f": {Standing: later(99)}},
		"none has opened its own": {"d": {}, "e": {}, "f": {}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				assert.ErrorIs(t, run(t, absent(w, "d", "e", "f")), context.DeadlineExceeded, "it takes part")
			})
		})
	}
}

// TestRemovedNodeIsRefused checks that one answer is enough, also from a node that is no voter, and although all voters
// in the folder would let the node in.
func TestRemovedNodeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refusal *Refusal
		if err := run(t, absent(world{"a": {}, "b": {}, "d": {Removed: true}}, "d")); !errors.As(err, &refusal) {
			t.Errorf("it takes part: %v", err)
		}
	})
}

func TestIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		record *clusterpb.Shard
		joined uint64
		over   bool
	}{
		"as it was placed":      {&clusterpb.Shard{Replicas: []string{"a", "self"}}, 0, false},
		"others have joined":    {&clusterpb.Shard{Replicas: []string{"b", "self"}, Revision: 4}, 0, false},
		"removed":               {&clusterpb.Shard{Replicas: []string{"a", "b"}, Revision: 4}, 0, true},
		"an older record":       {&clusterpb.Shard{Replicas: []string{"a", "b"}, Revision: 4}, 5, false},
		"joined by that record": {&clusterpb.Shard{Replicas: []string{"a", "self"}, Revision: 5, Joined: map[string]uint64{"self": 5}}, 5, false},
		"removed and back":      {&clusterpb.Shard{Replicas: []string{"a", "self"}, Revision: 9, Joined: map[string]uint64{"self": 8}}, 5, true},
	} {
		assert.Equal(t, isOver(c.record, "self", c.joined), c.over, "%s: over", name)
	}
}
