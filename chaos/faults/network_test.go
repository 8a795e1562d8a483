package faults

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
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

func TestNetworkKindsNeedNetwork(t *testing.T) {
	for _, k := range kindsOf("network") {
		assert.Error(t, k.Needs(&stand.Stand{}), "%s would strike on loopback", k.Name)
	}
}

// Every kind strikes a real cluster, several at a time. Afterwards the network is sound, all faults are recorded, and
// every shard has a leader again.
func TestNetworkIsWholeAfterFaults(t *testing.T) {
	localtest.Need(t)
	gated.NeedRoot(t, netlab.Supported)
	s, err := stand.Open(t.Context(), stand.Config{
		Binary: localtest.Build(t), Dir: t.TempDir(), Nodes: 3, Shards: 2, Network: true,
	})
	assert.NoError(t, err)
	defer func() {
		assert.Equal(t, s.Close(), nil)
	}()
	rec := history.NewRecorder(nil)
	kinds := kindsOf("network")
	struck := strikeAll(t, s, rec, kinds)
	faults := rec.History().Faults
	if len(faults) != struck {
		t.Errorf("%d faults of %d are recorded", len(faults), struck)
	}
	for _, f := range faults {
		t.Logf("%s: %v, leading %v: %s", f.Kind, f.Nodes, f.Shards, f.Detail)
		if f.Mended < f.Mending || f.Mending < f.Struck || f.Detail == "" || len(f.Nodes) == 0 {
			t.Errorf("%+v", f)
		}
		assert.Equal(t, f.Deaf, f.Kind == noCallers, "%s: deaf", f.Kind)
	}
	for _, from := range s.Names() {
		for _, to := range s.Names() {
			if from != to && s.Network.Quality(from, to) != (netlab.Quality{}) {
				t.Errorf("from %s to %s: %v", from, to, s.Network.Quality(from, to))
			}
		}
	}
	assert.Equal(t, s.AwaitReady(t.Context(), time.Minute, s.Names()...), nil)
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		leaders, err := s.Leaders(soon)
		if err == nil && len(leaders) == 2 {
			return
		}
		if !wait.For(soon, 50*time.Millisecond) {
			t.Fatalf("leaders: %v, %v", leaders, err)
		}
	}
}

// strikeAll strikes the kinds that this stand supports, three at a time, and returns how many struck.
func strikeAll(t *testing.T, s *stand.Stand, rec *history.Recorder, kinds []Kind) (struck int) {
	t.Helper()
	var strikes sync.WaitGroup
	defer strikes.Wait()
	room := make(chan struct{}, 3)
	for i, k := range kinds {
		if k.Needs(s) != nil {
			continue
		}
		struck++
		room <- struct{}{}
		strikes.Go(func() {
			defer func() { <-room }()
			on := Target{Stand: s, Recorder: rec, Rand: rand.New(rand.NewPCG(1, uint64(i))), Hold: 300 * time.Millisecond}
			assert.Equal(t, k.Strike(t.Context(), on), nil, "%s", k.Name)
		})
	}
	return struck
}

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
