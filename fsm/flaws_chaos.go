//go:build chaos

package fsm

import (
	"github.com/belfryhq/belfry/fsm/flaw"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

func flawForgetsCancel(number uint64) bool { return flaw.ForgottenCancel.Strikes(number) }

func flawDropsSettle(number uint64) bool { return flaw.DroppedSettle.Strikes(number) }

// flawChangesWebhookID gives every attempt a webhook-id of its own.
func flawChangesWebhookID(t *fsmpb.Task, origin uint64) {
	if flaw.TwoIDs.On() {
		t.WebhookId = webhookID(origin, t.Fence)
	}
}

// flawKeepsScheduled restores beside the previous state instead of replacing it, and finds the tasks of that one first: a
// task that was scheduled stays so, whatever the snapshot says of it.
func flawKeepsScheduled(m *Machine, previous *state) {
	if flaw.DirtyRestore.On() {
		m.keepScheduled(previous)
	}
}

func (m *Machine) keepScheduled(was *state) {
	for slot := uint32(0); slot < task.Slots; slot++ {
		for h := range was.index.Each(slot) {
			if was.tasks.Read(h).is(fsmpb.State_STATE_SCHEDULED) {
				m.keep(was, h)
			}
		}
	}
}

func (m *Machine) keep(was *state, h handle) {
	r := was.tasks.Read(h)
	namespace, id := was.idOf(r)
	if restored := m.find(namespace, id); restored != 0 {
		m.drop(restored)
	}
	c := readCold(was.blobs.Get(r.cold))
	made := m.newCold(namespace, was.specOf(&c, true), c.created, c.occurrence, c.delay)
	kept := m.add(m.placeOf(namespace, id), namespace, id, made)
	m.wheel.Insert(kept, r.Due(), r.Seq())
	m.tasks.Write(kept).waits = true
	m.land(kept)
}
