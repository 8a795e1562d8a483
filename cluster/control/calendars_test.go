package control

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

func setCalendar(namespace, name, closed string) *clusterpb.ControlEntry {
	c := &fsmpb.Calendar{Namespace: namespace, Name: name, Closed: []string{closed}}
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_SetCalendar{
		SetCalendar: &clusterpb.SetCalendar{Calendar: c}}}
}

func deleteCalendar(namespace, name string) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_DeleteCalendar{
		DeleteCalendar: &clusterpb.DeleteCalendar{Namespace: namespace, Name: name}}}
}

// Calendars and policies share one version, and an unchanged calendar keeps its own.
func TestCalendarsChange(t *testing.T) {
	m := newMachine()
	for i, step := range []struct {
		entry *clusterpb.ControlEntry
		want  *clusterpb.ControlChanged
	}{
		{deleteCalendar("a", "x"), &clusterpb.ControlChanged{}},
		{setCalendar("a", "x", "--12-25"), &clusterpb.ControlChanged{QueuesVersion: 1}},
		{setQueue(policy("q", 1)), &clusterpb.ControlChanged{QueuesVersion: 2}},
		{setCalendar("a", "x", "--12-25"), &clusterpb.ControlChanged{Existed: true, QueuesVersion: 2}},
		{setCalendar("b", "x", "--12-26"), &clusterpb.ControlChanged{QueuesVersion: 3}},
		{setCalendar("a", "x", "--12-24"), &clusterpb.ControlChanged{Existed: true, QueuesVersion: 4}},
		{deleteCalendar("b", "x"), &clusterpb.ControlChanged{Existed: true, QueuesVersion: 5}},
	} {
		if got, err := change(t, m, step.entry); err != nil || !proto.Equal(got, step.want) {
			t.Errorf("step %d: %v, %v, want %v", i, got, err, step.want)
		}
	}
	state, _ := m.watch()
	if c := Calendar(state, "a", "x"); c.GetVersion() != 4 || c.Closed[0] != "--12-24" {
		t.Errorf("%v", c)
	}
	if Calendar(state, "b", "x") != nil || Calendar(state, "", "x") != nil || len(Calendars(state, "a")) != 1 {
		t.Errorf("%v", state.Calendars)
	}
	_, err := change(t, m, setCalendar("a", "", "--12-25"))
	assert.Error(t, err, "a calendar without a name")
}

func TestCalendarsHaveALimit(t *testing.T) {
	m := newMachine()
	for i := range MaxCalendars {
		_, err := change(t, m, setCalendar("a", fmt.Sprintf("c%04d", i), "--12-25"))
		assert.NoError(t, err)
	}
	var field *task.FieldError
	if _, err := change(t, m, setCalendar("a", "further", "--12-25")); !errors.As(err, &field) || field.Limit != "1024" {
		t.Errorf("one too many: %v", err)
	}
	_, err := change(t, m, setCalendar("a", "c0001", "--12-26"))
	assert.Equal(t, err, nil, "a change of one that is there")
	state, _ := m.watch()
	state = shallowCopy(state)
	state.Namespaces = []*clusterpb.Namespace{{Name: "b"}}
	if err := checkCalendarShare(state, &fsmpb.Calendar{Namespace: "a", Name: "further"}); err == nil {
		t.Error("a namespace beside others has all of them")
	}
	assert.Equal(t, checkCalendarShare(state, &fsmpb.Calendar{Namespace: "b", Name: "first"}), nil, "the other namespace")
}
