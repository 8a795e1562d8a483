package fsm

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// The table has every kind of command that an entry may contain.
func TestEveryKindOfCommandIsApplied(t *testing.T) {
	kinds := (&fsmpb.Command{}).ProtoReflect().Descriptor().Oneofs().ByName("op").Fields()
	for i := range kinds.Len() {
		c := (&fsmpb.Command{}).ProtoReflect()
		c.Set(kinds.Get(i), c.NewField(kinds.Get(i)))
		op := c.Interface().(*fsmpb.Command).Op
		if commandOf(op).apply == nil {
			t.Errorf("%T is not in the table", op)
		}
	}
}

// firstKinds are the kinds of command of the first build, by field number. The list never grows.
var firstKinds = []protoreflect.FieldNumber{8, 9, 10, 11, 12, 16, 17, 18, 19, 20, 21, 24, 25}

// secondKinds are the kinds of command that version 2 brought. The list never grows.
var secondKinds = []protoreflect.FieldNumber{32, 33, 34, 35, 36, 37, 38, 39}

// thirdKinds are the kinds of command that version 3 brought. The list never grows.
var thirdKinds = []protoreflect.FieldNumber{48}

// fourthKinds are the kinds of command that version 4 brought. The list never grows.
var fourthKinds = []protoreflect.FieldNumber{56, 57, 58, 59, 60, 61}

// TestLaterKindsDeclareTheirVersion checks that no kind that an older build cannot read has its version.
func TestLaterKindsDeclareTheirVersion(t *testing.T) {
	kinds := (&fsmpb.Command{}).ProtoReflect().Descriptor().Oneofs().ByName("op").Fields()
	if kinds.Len() < len(firstKinds) {
		t.Fatalf("%d kinds", kinds.Len())
	}
	for i := range kinds.Len() {
		c := &fsmpb.Command{}
		c.ProtoReflect().Mutable(kinds.Get(i))
		needed := VersionOf(c)
		want := CommandVersion
		switch {
		case slices.Contains(firstKinds, kinds.Get(i).Number()):
			want = FirstVersion
		case slices.Contains(secondKinds, kinds.Get(i).Number()):
			want = 2
		case slices.Contains(thirdKinds, kinds.Get(i).Number()):
			want = 3
		case slices.Contains(fourthKinds, kinds.Get(i).Number()):
			want = 4
		}
		if int(needed) != want {
			t.Errorf("%s needs version %d, not %d", kinds.Get(i).Name(), needed, want)
		}
	}
}

// TestSnapshotHasTheVersionOfItsCommands checks that an older build can read a snapshot unless a newer command made the
// state, also after a restart from a snapshot.
func TestSnapshotHasTheVersionOfItsCommands(t *testing.T) {
	m := New(1)
	for _, version := range []uint32{FirstVersion, CommandVersion, FirstVersion} {
		before := m.store.Version
		applyBytes(t, m, mustMarshal(&fsmpb.Entry{Version: version, Commands: []*fsmpb.Command{scheduleCommand("a", 5)}}))
		if want := max(before, version); m.store.Version != want {
			t.Fatalf("after an entry of version %d: %d, want %d", version, m.store.Version, want)
		}
		m = restored(t, m)
	}
	if m.store.Version != CommandVersion {
		t.Errorf("version %d after a restart", m.store.Version)
	}
}

// TestGroupsDeclareTheirVersion checks that no command with a group or a priority goes to a build that would drop it.
func TestGroupsDeclareTheirVersion(t *testing.T) {
	group, priority, window := "g", uint32(1), &fsmpb.Window{Daily: []string{"09:00-20:00"}}
	for _, c := range []*fsmpb.Command{
		{Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{Spec: &fsmpb.Spec{Group: group, Window: window}}}},
		{Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{Spec: &fsmpb.Spec{Priority: priority}}}},
		{Op: &fsmpb.Command_Touch{Touch: &fsmpb.Touch{OrSchedule: &fsmpb.Schedule{Spec: &fsmpb.Spec{Group: group}}}}},
		{Op: &fsmpb.Command_Patch{Patch: &fsmpb.Patch{Group: &group}}},
		{Op: &fsmpb.Command_Patch{Patch: &fsmpb.Patch{Priority: &priority}}},
		{Op: &fsmpb.Command_SetSeries{SetSeries: &fsmpb.SetSeries{Spec: &fsmpb.Spec{Group: group}}}},
	} {
		if version := VersionOf(c); version != groupsSince {
			t.Errorf("%v needs version %d, not %d", c, version, groupsSince)
		}
	}
}

// TestIsolationDeclaresItsVersion checks that no command about an isolated path goes to a build that knows none.
func TestIsolationDeclaresItsVersion(t *testing.T) {
	for _, c := range []*fsmpb.Command{
		{Op: &fsmpb.Command_Isolate{Isolate: &fsmpb.Isolate{}}},
		{Op: &fsmpb.Command_Grant{Grant: &fsmpb.Grant{Turn: 1}}},
		{Op: &fsmpb.Command_Grant{Grant: &fsmpb.Grant{Lane: &fsmpb.Lane{Path: "/"}}}},
		{Op: &fsmpb.Command_Settle{Settle: &fsmpb.Settle{Verdict: fsmpb.Verdict_VERDICT_PROBED}}},
	} {
		if version := VersionOf(c); version != IsolationSince {
			t.Errorf("%v needs version %d, not %d", c, IsolationSince, version)
		}
	}
}

// TestWindowsDeclareTheirVersion checks that no command with a window goes to a build that would drop the window.
func TestWindowsDeclareTheirVersion(t *testing.T) {
	spec := &fsmpb.Spec{Window: &fsmpb.Window{Daily: []string{"09:00-20:00"}}}
	for _, c := range []*fsmpb.Command{
		{Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{Spec: spec}}},
		{Op: &fsmpb.Command_Touch{Touch: &fsmpb.Touch{OrSchedule: &fsmpb.Schedule{Spec: spec}}}},
		{Op: &fsmpb.Command_Patch{Patch: &fsmpb.Patch{Window: spec.Window}}},
		{Op: &fsmpb.Command_SetSeries{SetSeries: &fsmpb.SetSeries{Spec: spec}}},
		{Op: &fsmpb.Command_Settle{Settle: &fsmpb.Settle{Verdict: fsmpb.Verdict_VERDICT_HELD}}},
	} {
		if version := VersionOf(c); version != windowsSince {
			t.Errorf("%T needs version %d", c.Op, version)
		}
	}
}
