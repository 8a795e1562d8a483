package fsm

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
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

// firstKinds are the kinds of command of version 1, by field number. The list never grows: another kind has a version of
// its own.
var firstKinds = []protoreflect.FieldNumber{
	8, 9, 10, 11, 12, 16, 17, 18, 19, 20, 21, 22, 24, 25, 32, 33, 34, 35, 36, 37, 38, 39, 48, 56, 57, 58, 59, 60, 61,
}

// TestLaterKindsDeclareTheirVersion checks that no kind that an older build cannot read has its version.
func TestLaterKindsDeclareTheirVersion(t *testing.T) {
	kinds := (&fsmpb.Command{}).ProtoReflect().Descriptor().Oneofs().ByName("op").Fields()
	if kinds.Len() < len(firstKinds) {
		t.Fatalf("%d kinds", kinds.Len())
	}
	for i := range kinds.Len() {
		c := &fsmpb.Command{}
		c.ProtoReflect().Mutable(kinds.Get(i))
		isFirst := slices.Contains(firstKinds, kinds.Get(i).Number())
		if needed := VersionOf(c); !isFirst && needed == FirstVersion || needed > CommandVersion {
			t.Errorf("%s needs version %d", kinds.Get(i).Name(), needed)
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
		assert.MustEqual(t, m.store.Version, max(before, version), "after an entry of version %d", version)
		m = restored(t, m)
	}
	if m.store.Version != CommandVersion {
		t.Errorf("version %d after a restart", m.store.Version)
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

// A call that wanted no task to exist gets the existing task, as a read shows it.
func TestUnmetConditionShowsTheTask(t *testing.T) {
	m := New(1)
	apply := func(full bool, c *fsmpb.Command) *fsmpb.Result {
		t.Helper()
		applied, err := m.Apply(mustMarshal(&fsmpb.Entry{Version: CommandVersion, AtMs: 1000, Commands: []*fsmpb.Command{c}}), full)
		assert.NoError(t, err)
		if !full {
			return nil
		}
		return applied.Results[0]
	}
	absent := func(id string, answer fsmpb.Answer) *fsmpb.Command {
		c := scheduleCommand(id, 9000)
		c.Condition, c.Answer = &fsmpb.Condition{Absent: true}, answer
		return c
	}
	small, large := scheduleCommand("small", 9000), scheduleCommand("large", 9000)
	small.GetSchedule().Spec.Payload = []byte(`"` + strings.Repeat("x", maxBriefPayload-2) + `"`)
	large.GetSchedule().Spec.Payload = append(small.GetSchedule().Spec.Payload, ' ')
	apply(true, small)
	apply(true, large)
	for _, c := range []struct {
		id     string
		answer fsmpb.Answer
		whole  bool
	}{
		{"small", fsmpb.Answer_ANSWER_BRIEF, true}, {"small", fsmpb.Answer_ANSWER_TASK, true},
		{"large", fsmpb.Answer_ANSWER_BRIEF, false}, {"large", fsmpb.Answer_ANSWER_TASK, true},
	} {
		want := m.Get("", c.id)
		if !c.whole {
			want.Spec.Payload = nil
		}
		r := apply(true, absent(c.id, c.answer))
		if r.Code != fsmpb.Code_CODE_PRECONDITION_FAILED || r.Revision != want.Revision || !proto.Equal(r.Task, want) {
			t.Errorf("%s, %v: %v, want %v", c.id, c.answer, r, want)
		}
	}
	changed := scheduleCommand("small", 9000)
	changed.Condition = &fsmpb.Condition{Revisions: []uint64{999}}
	if r := apply(true, changed); r.Task != nil || r.Code != fsmpb.Code_CODE_PRECONDITION_FAILED {
		t.Errorf("another condition: %v", r)
	}
	apply(false, absent("small", fsmpb.Answer_ANSWER_BRIEF)) // a follower has no caller to answer
}
