package faults

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/netlab"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
	"github.com/belfryhq/belfry/internal/wait"
)

func TestGossipKindsNeedTheirStand(t *testing.T) {
	for _, k := range kindsOf("gossip") {
		if err := k.Needs(&stand.Stand{Network: &netlab.Network{}}); err == nil {
			t.Errorf("%s would strike gossip with a key and without a switch", k.Name)
		}
	}
}

// Both kinds strike real nodes, one after the other, because two at once would end each other. Both are recorded, and
// all nodes see each other as alive afterwards.
func TestGossipIsWholeAfterFaults(t *testing.T) {
	gated.Need(t, gated.Real)
	localtest.Need(t)
	s, err := stand.Open(t.Context(), stand.Config{
		Binary: localtest.Build(t, "chaos"), Dir: t.TempDir(), Nodes: 3, Shards: 2, Gossip: true,
	})
	assert.NoError(t, err)
	defer func() {
		assert.Equal(t, s.Close(), nil)
	}()
	rec := history.NewRecorder(nil)
	for i, k := range kindsOf("gossip") {
		assert.NoError(t, k.Needs(s))
		on := Target{Stand: s, Recorder: rec, Rand: rand.New(rand.NewPCG(1, uint64(i))), Hold: 300 * time.Millisecond}
		assert.Equal(t, k.Strike(t.Context(), on), nil, "%s", k.Name)
		release, ok := s.Claim(theGossip)
		if !ok {
			t.Fatalf("%s still claims the gossip after it was mended", k.Name)
		}
		assert.ErrorIs(t, k.Strike(t.Context(), on), ErrBusy, "%s beside another gossip fault", k.Name)
		release()
	}
	struck := rec.History().Faults
	kinds := []string{history.SilentGossip, history.ForgedGossip}
	for i, f := range struck {
		if f.Kind != kinds[i] || f.Mended < f.Mending || f.Mending.Sub(f.Struck) < 300*time.Millisecond || f.Detail == "" ||
			f.Restarted {
			t.Errorf("%+v", f)
		}
	}
	assert.MustEqual(t, len(struck), len(kinds), "faults are recorded")
	for {
		view, err := s.View(t.Context())
		if err == nil && !slices.ContainsFunc(view.Nodes, func(n client.Node) bool { return !n.Alive }) {
			return
		}
		if !wait.For(t.Context(), pollEvery) {
			t.Fatal(err)
		}
	}
}
