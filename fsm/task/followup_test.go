package task

import (
	"strings"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
)

func TestFollowUpIDs(t *testing.T) {
	id := "report@3"
	for place, end := range []fsmpb.State{fsmpb.State_STATE_DELIVERED, fsmpb.State_STATE_DEAD, fsmpb.State_STATE_DELIVERED} {
		assert.Equal(t, Slot("", FollowUpID(id, end)), Slot("", "report"), "the slot of the first task")
		id = FollowUpID(id, end)
		first, at := SplitFollowUp(id)
		assert.Equal(t, first, "report@3")
		assert.Equal(t, at, place+1)
		assert.Equal(t, CheckTaskID("id", id), (*FieldError)(nil))
	}
	assert.Equal(t, id, "report@3@delivered@dead@delivered")
	for _, id := range []string{"a@", "a@done", "a@dead@3", "@dead", "a@delivered@"} {
		if CheckTaskID("id", id) == nil {
			t.Errorf("%s is an id", id)
		}
	}
}

// rowOf returns a row of n follow-ups.
func rowOf(n int) *fsmpb.FollowUp {
	if n == 0 {
		return nil
	}
	return &fsmpb.FollowUp{Spec: &fsmpb.Spec{OnDead: rowOf(n - 1)}}
}

func TestFollowUpLimits(t *testing.T) {
	after := func(change func(*fsmpb.FollowUp)) *fsmpb.Spec {
		f := &fsmpb.FollowUp{Spec: &fsmpb.Spec{}}
		change(f)
		return &fsmpb.Spec{Payload: []byte("1"), OnDelivered: &fsmpb.FollowUp{Spec: &fsmpb.Spec{OnDead: f}}}
	}
	const path = "on_delivered.on_dead"
	for field, spec := range map[string]*fsmpb.Spec{
		"":                                     after(func(f *fsmpb.FollowUp) { f.Spec.OnDead = rowOf(1) }),
		"on_delivered.on_dead.on_dead.on_dead": after(func(f *fsmpb.FollowUp) { f.Spec.OnDead = rowOf(2) }),
		path + ".delay":                        after(func(f *fsmpb.FollowUp) { f.DelayMs = -1 }),
		path + ".queue":                        after(func(f *fsmpb.FollowUp) { f.Spec.Queue = "a b" }),
		path + ".target.url":                   after(func(f *fsmpb.FollowUp) { f.Spec.Target = &fsmpb.Target{Url: "x"} }),
		path + ".keep_answer": after(func(f *fsmpb.FollowUp) {
			f.KeepAnswer, f.Spec.Payload = true, []byte("1")
		}),
		path + ".target.headers": after(func(f *fsmpb.FollowUp) {
			f.Spec.Target = &fsmpb.Target{Url: "http://x/", Headers: []*fsmpb.Header{{Name: "cookie", Value: Masked}}}
		}),
		"payload": after(func(f *fsmpb.FollowUp) { f.Spec.Payload = []byte(strings.Repeat("1", MaxPayloadBytes)) }),
	} {
		switch err := CheckSpec(spec); {
		case err == nil && field != "", err != nil && err.Field != field:
			t.Errorf("%s: %v", field, err)
		}
	}
	secret := &fsmpb.Target{Url: "http://x/", Headers: []*fsmpb.Header{{Name: "authorization", Value: "v"}}}
	err := CheckQueue(&fsmpb.QueuePolicy{Queue: "q", OnDead: &fsmpb.FollowUp{Spec: &fsmpb.Spec{Target: secret}}})
	if err == nil || err.Field != "on_dead.target.headers.authorization" {
		t.Errorf("a queue's credential: %v", err)
	}
}

func TestOutcome(t *testing.T) {
	end := End{ID: "s@3", Queue: "q", State: fsmpb.State_STATE_DEAD, Attempts: 2, Error: "500: \"no\"", Status: 500,
		Answer: []byte("no"), DueMs: 1000, AtMs: 1 << 40}
	assert.Equal(t, string(end.Outcome()), `{"id":"s@3","queue":"q","occurrence":3,"outcome":"dead","attempts":2,`+
		`"status":500,"error":"500: \"no\"","answer_base64":"bm8=","due":"1970-01-01T00:00:01.000Z",`+
		`"done_at":"2004-11-03T19:53:47.776Z"}`)
}
