package fsm

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// A call that wanted no task to exist gets the existing task, as a read shows it.
func TestUnmetConditionShowsTheTask(t *testing.T) {
	m := New(1)
	apply := func(full bool, c *fsmpb.Command) *fsmpb.Result {
		t.Helper()
		applied, err := m.Apply(mustMarshal(&fsmpb.Entry{Version: CommandVersion, AtMs: 1000, Commands: []*fsmpb.Command{c}}), full)
		if err != nil {
			t.Fatal(err)
		}
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
