package fsm

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// keepScheduled is what a restore into a machine that was not emptied comes to, where what was there is found first:
// see flaw.DirtyRestore. What was scheduled stays so, whatever the snapshot says of it.
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
