//go:build next

package control

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/raftgroup"
)

// TestVersionRisesWhenAllNodesReadIt upgrades the nodes of a cluster one after the other.
func TestVersionRisesWhenAllNodesReadIt(t *testing.T) {
	members := []raftgroup.Member{voter("a"), voter("b")}
	s, _ := settle(t, &clusterpb.ControlState{}, members)
	s = mustApply(t, s, register("a", 1, 1))
	s = mustApply(t, s, register("b", 1, 1))
	for _, upgraded := range []*clusterpb.ControlEntry{register("a", 2, Version), register("a", 3, 1), register("a", 4, Version)} {
		s = mustApply(t, s, upgraded) // there, back and there again
		var behind *BehindError
		if err := MayWrite(s, Version); !errors.As(err, &behind) || !errors.Is(err, task.ErrNotProposed) ||
			!strings.Contains(err.Error(), "(b)") {
			t.Fatalf("with one old node: %v", err)
		}
		if s, _ = settle(t, s, members); s.Version != 0 {
			t.Fatalf("raised to %d too early", s.Version)
		}
	}
	s = mustApply(t, s, register("b", 2, Version))
	if err := MayWrite(s, Version); err != nil {
		t.Fatal(err)
	}
	if s, _ = settle(t, s, members); s.Version != Version {
		t.Fatalf("not raised: %v", s)
	}
	if err := MayWrite(s, Version+1); err == nil {
		t.Error("a version that no node reads may be written")
	}
	if _, _, err := apply(s, marshal(t, register("b", 3, 1))); !errors.Is(err, ErrRefused) ||
		!strings.Contains(err.Error(), "newer build") {
		t.Errorf("a node returned to an older build: %v", err)
	}
}

// TestVersionAwaitsMembersWithoutRegistration checks that a member of unknown build keeps the version from rising.
func TestVersionAwaitsMembersWithoutRegistration(t *testing.T) {
	members := []raftgroup.Member{voter("a"), voter("b")}
	s, _ := settle(t, &clusterpb.ControlState{}, members)
	s, _ = settle(t, mustApply(t, s, register("a", 1, Version)), members)
	if s.Version != 0 {
		t.Fatalf("raised to %d", s.Version)
	}
	if s, _ = settle(t, mustApply(t, s, register("b", 1, Version)), members); s.Version != Version {
		t.Fatalf("not raised: %v", s)
	}
}

// TestGroupWritesNoNewerVersion checks that the leader defers an entry until all nodes read it, and that the version
// then rises by itself. A lost node is waived.
func TestGroupWritesNoNewerVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := replica(t, t.TempDir(), "a", false, []string{"a"})
		defer closeGroup(t, g)
		until(t, g, "placed", placed)
		for _, node := range []*clusterpb.Node{
			{Id: "gone", Name: "n2", CommandVersion: 1, Boot: 1}, {Id: "a", Name: "n1", CommandVersion: Version, Boot: 1},
		} {
			if err := g.Register(t.Context(), node); err != nil {
				t.Fatal(err)
			}
		}
		var behind *BehindError
		if _, err := g.propose(t.Context(), raise(Version).entry); !errors.As(err, &behind) ||
			!slices.Equal(behind.Nodes, []string{"node n2 (gone)"}) {
			t.Fatalf("proposed with an old node: %v", err)
		}
		if g.State().Version != 0 {
			t.Fatalf("raised with an old node: %v", g.State())
		}
		waiving := begin(&clusterpb.Operation{Id: "op", Kind: leave, Node: "gone"})
		waiving.GetBegin().Waive = Version
		if _, err := g.propose(t.Context(), waiving); err != nil {
			t.Fatal(err)
		}
		until(t, g, "raised", func(s *clusterpb.ControlState) bool { return s.Version == Version })
		if err := g.Register(t.Context(), &clusterpb.Node{Id: "gone", CommandVersion: 1, Boot: 2}); !errors.Is(err, ErrRefused) {
			t.Errorf("the old build was let in: %v", err)
		}
	})
}
