package store

import (
	"bytes"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/slab"
	"github.com/belfryhq/belfry/internal/assert"
)

// caller makes keyed calls on one task, as the machine carries them out. Each call has a different key.
type caller struct {
	*Store
	t *testing.T
}

func newCaller(t *testing.T) caller {
	c := caller{New(1), t}
	c.NowMs = 1000
	return c
}

func (c caller) task() Task { return c.Find("", "a") }

func (c caller) key() *fsmpb.Key { return &fsmpb.Key{Hash: c.Number, Call: 1} }

func (c caller) content() Content {
	return Content{Spec: &fsmpb.Spec{Payload: []byte("p")}, CreatedMs: 1000, Occurrence: c.Number, DelayMs: 10}
}

func (c caller) add() {
	c.Number++
	c.Add(c.PlaceOf("", "a"), "", "a", c.key(), c.content(), 2000)
	c.remember(fsmpb.Code_CODE_CREATED, 0)
}

func (c caller) change(outcome fsmpb.CancelOutcome, edit func(Edit)) {
	c.Number++
	if edit != nil {
		c.Change(c.task(), edit)
	}
	c.remember(fsmpb.Code_CODE_OK, outcome)
}

func (c caller) remember(code fsmpb.Code, outcome fsmpb.CancelOutcome) {
	c.Remember(c.task(), c.key(), &fsmpb.Result{Code: code, Outcome: outcome, Revision: c.task().Revision()}, c.Number)
}

func (c caller) cancel() {
	c.change(fsmpb.CancelOutcome_CANCEL_OUTCOME_CANCELLED, func(e Edit) {
		e.SetOutcome(fsmpb.CancelOutcome_CANCEL_OUTCOME_CANCELLED)
		e.Entomb(fsmpb.State_STATE_CANCELLED)
	})
}

func (c caller) cancelAgain() { c.change(fsmpb.CancelOutcome_CANCEL_OUTCOME_CANCELLED, nil) }

func (c caller) hasten() { c.change(0, func(e Edit) { e.Hasten(1000) }) }

func (c caller) reschedule(dueMs int64) { c.change(0, func(e Edit) { e.Reschedule(dueMs) }) }

func (c caller) rewrite(dueMs int64) {
	c.change(0, func(e Edit) {
		e.Rewrite(c.content())
		e.Reschedule(dueMs)
	})
}

// retry takes the task to the wait for its second attempt.
func (c caller) retry() {
	c.Advance(2000, 1, func(e Edit) {
		e.Begin()
		e.SetAttempts(1)
		e.EndAttempt(Ended{Error: "refused"})
		e.SetState(fsmpb.State_STATE_RETRYING)
		e.WaitUntil(5000)
	})
}

// A task without a change since its first call has one blob, key included, also after a restore. A call that moves the
// task's due time, or brings more keys than are remembered, writes the key out. The state hash is the same either way.
func TestFirstKeyIsInTheColdBlob(t *testing.T) {
	for name, test := range map[string]struct {
		calls func(c caller)
		first bool // the first key is in the cold blob after the calls
		keys  bool // the task has a second blob
	}{
		"scheduled":                {func(caller) {}, true, false},
		"cancelled":                {caller.cancel, true, true},
		"touched":                  {func(c caller) { c.reschedule(1100) }, false, true},
		"fired before its time":    {caller.hasten, false, true},
		"patched":                  {func(c caller) { c.reschedule(5000) }, false, true},
		"scheduled anew":           {func(c caller) { c.rewrite(3000) }, false, true},
		"cancelled again":          {func(c caller) { c.cancel(); c.cancelAgain() }, true, true},
		"fired while it retries":   {func(c caller) { c.retry(); c.hasten() }, true, true},
		"more than are remembered": {func(c caller) { c.retry(); c.hasten(); c.hasten() }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCaller(t)
			c.add()
			test.calls(c)
			for _, s := range []*Store{c.Store, restored(t, c.Store)} {
				assert.Equal(t, s.Audit(), nil)
				task := s.Find("", "a")
				if first, keys := task.head().first.kept, task.record().keys != slab.Ref(0); first != test.first || keys != test.keys {
					t.Errorf("first key in the cold blob: %v, other keys: %v", first, keys)
				}
			}
		})
	}
}

func restored(t *testing.T, s *Store) *Store {
	t.Helper()
	snapshot := s.Snapshot()
	defer snapshot.Release()
	var b bytes.Buffer
	if _, err := snapshot.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	fresh, err := Restore(1, &b)
	assert.NoError(t, err)
	return fresh
}
