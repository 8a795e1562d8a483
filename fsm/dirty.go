package fsm

import "github.com/belfryhq/belfry/fsm/fsmpb"

// keepScheduled is what a restore into a machine that was not emptied would come to: see flaw.DirtyRestore. What was
// scheduled and is not in the snapshot stays.
func (m *Machine) keepScheduled(was *state) {
	for slot := uint32(0); slot < Slots; slot++ {
		for h := range was.index.Each(slot) {
			r := was.tasks.Read(h)
			namespace, id := was.idOf(r)
			if !r.is(fsmpb.State_STATE_SCHEDULED) || m.find(namespace, id) != 0 {
				continue
			}
			c := readCold(was.blobs.Get(r.cold))
			kept := m.add(namespace, id, m.newCold(namespace, was.specOf(&c, true), c.created, c.occurrence, c.delay))
			m.wheel.Insert(kept, r.Due(), r.Seq())
			m.tasks.Write(kept).waits = true
			m.land(kept)
		}
	}
}
