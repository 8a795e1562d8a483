package control

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/raftgroup"
)

// firstOps are the operations of the first build, by field number. The list never grows after the first release.
var firstOps = []protoreflect.FieldNumber{8, 9, 10, 11, 12, 68}

// secondOps are the operations that command version 2 brought. The list never grows.
var secondOps = []protoreflect.FieldNumber{13, 14, 15, 16, 17, 20, 24, 32, 33, 40, 41, 42, 43, 30}

// thirdOps are the operations that command version 3 brought. The list never grows.
var thirdOps = []protoreflect.FieldNumber{36, 50, 51, 52, 53, 54, 55, 56, 57}

// fourthOps are the operations that command version 4 brought. The list never grows.
var fourthOps = []protoreflect.FieldNumber{60, 61, 62, 63, 66, 67}

// TestLaterOperationsDeclareTheirVersion checks that no operation that an older build cannot read has its version.
func TestLaterOperationsDeclareTheirVersion(t *testing.T) {
	ops := (&clusterpb.ControlEntry{}).ProtoReflect().Descriptor().Oneofs().ByName("op").Fields()
	if ops.Len() <= len(firstOps) {
		t.Fatal("no later operation was seen")
	}
	for i := range ops.Len() {
		op := ops.Get(i)
		entry := &clusterpb.ControlEntry{}
		value := entry.ProtoReflect().Mutable(op).Message()
		if version := value.Descriptor().Fields().ByName("version"); version != nil && version.Number() == 1 {
			value.Set(version, protoreflect.ValueOfUint32(2)) // a Raise needs the version that it raises to
		}
		needed := versionOf(entry)
		want := Version
		switch {
		case slices.Contains(firstOps, op.Number()):
			want = firstVersion
		case slices.Contains(secondOps, op.Number()):
			want = 2
		case slices.Contains(thirdOps, op.Number()):
			want = 3
		case slices.Contains(fourthOps, op.Number()):
			want = 4
		}
		if int(needed) != want {
			t.Errorf("%s needs version %d, not %d", op.Name(), needed, want)
		}
	}
}

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

// TestSnapshotOfANewerVersionIsRefused checks that a build refuses the states and entries of a later build, and reads
// its own, in which the first build would see another header.
func TestSnapshotOfANewerVersionIsRefused(t *testing.T) {
	write := func(s *clusterpb.ControlState) []byte {
		var out bytes.Buffer
		if _, err := (snapshot{s}).WriteTo(&out); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	s := proto.CloneOf(formed(t))
	if first := write(s); !bytes.HasPrefix(first, []byte("belfryc\x01")) {
		t.Errorf("the first version begins with %q", first[:8])
	}
	s.Version = Version
	raised := write(s)
	if !bytes.HasPrefix(raised, []byte{'b', 'e', 'l', 'f', 'r', 'y', 'c', Version}) {
		t.Errorf("version %d begins with %q", Version, raised[:8])
	}
	m := newMachine()
	if err := m.Restore(bytes.NewReader(raised)); err != nil {
		t.Fatal(err)
	}
	if state, _ := m.watch(); state.Version != Version {
		t.Errorf("restored %v", state)
	}
	s.Version = Version + 1
	if err := m.Restore(bytes.NewReader(write(s))); err == nil || !strings.Contains(err.Error(), "upgrade this node") {
		t.Errorf("a later version: %v", err)
	}
	_, _, err := apply(s, marshal(t, &clusterpb.ControlEntry{Version: Version + 1, Op: raise(Version + 1).entry.Op}))
	if !isUnreadable(err) || !strings.Contains(err.Error(), "upgrade this node") {
		t.Errorf("an entry of a later version: %v", err)
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
		if err := g.Waive(t.Context(), "none"); !errors.Is(err, ErrRefused) {
			t.Errorf("waived a node that is none: %v", err)
		}
		if g.State().Version != 0 {
			t.Fatalf("raised with an old node: %v", g.State())
		}
		if err := g.Waive(t.Context(), "gone"); err != nil {
			t.Fatal(err)
		}
		until(t, g, "raised", func(s *clusterpb.ControlState) bool { return s.Version == Version })
		if err := g.Register(t.Context(), &clusterpb.Node{Id: "gone", CommandVersion: 1, Boot: 2}); !errors.Is(err, ErrRefused) {
			t.Errorf("the old build was let in: %v", err)
		}
	})
}

// TestGroupsOfAQueueDeclareTheirVersion checks that no policy about groups goes to a build that would drop it.
func TestGroupsOfAQueueDeclareTheirVersion(t *testing.T) {
	for _, policy := range []*fsmpb.QueuePolicy{{Fifo: true}, {GroupInFlight: 2}, {Fair: true}} {
		entry := &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_SetQueue{
			SetQueue: &clusterpb.SetQueue{Policy: policy},
		}}
		if version := versionOf(entry); version != groupsSince {
			t.Errorf("%v needs version %d, not %d", policy, version, groupsSince)
		}
	}
}

// TestWindowOfAQueueDeclaresItsVersion checks that no policy with a window goes to a build that would drop the window.
func TestWindowOfAQueueDeclaresItsVersion(t *testing.T) {
	policy := &fsmpb.QueuePolicy{Window: &fsmpb.Window{Daily: []string{"09:00-20:00"}}}
	entry := &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_SetQueue{SetQueue: &clusterpb.SetQueue{Policy: policy}}}
	if version := versionOf(entry); version != windowsSince {
		t.Errorf("version %d", version)
	}
}
