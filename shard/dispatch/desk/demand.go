package desk

import (
	"container/list"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// maxSentBytes is how much may be on its way to one consumer; one task may go over it.
const maxSentBytes = 8 << 20

// Demand is one consumer's standing demand for tasks of a lane. The desk's mutex guards it.
type Demand struct {
	desk     *Desk
	line     *line
	place    *list.Element // in line.demands; nil: withdrawn
	tag      uint64
	terms    Terms
	consumer Consumer

	total   uint64 // may be granted over its life
	granted uint64 // have been, and were not given back; more than total if that was lowered
	coming  int    // of granted: not started yet
	named   bool   // the entry being made may name it

	received  uint64 // arrived, as the consumer said
	sent      []int  // sizes of those handed over and not known to have arrived, in order
	sentBytes int    // sum of sent

	parcel []*fsmpb.Task // while tasks are handed out

	look   uint64 // the last question whether anything is there; 0: none was asked
	looked uint64 // the last one that was answered
}

// Set sets how many tasks may come over the demand's life, and how many of them have arrived. A total below the number
// of tasks under way asks for no more of them. A look that is higher than the last one asks whether a task is there;
// see Consumer.Nothing.
func (d *Demand) Set(total, received, look uint64) {
	k := d.desk
	k.mu.Lock()
	defer k.mu.Unlock()
	if d.place == nil {
		return
	}
	before := d.room()
	d.total = total
	for ; d.received < received && len(d.sent) > 0; d.received++ {
		d.sentBytes -= d.sent[0]
		d.sent = d.sent[1:]
	}
	k.shelf.offer(d)
	if d.room() > before {
		k.announce(d.line)
	}
	if look > d.look {
		d.look = look
		k.cfg.Look(d.line.lane)
	}
}

// lookAgain has an open question answered once nothing is on its way to the demand any more.
func (d *Demand) lookAgain() {
	if d.look > d.looked && d.coming == 0 && d.place != nil {
		d.desk.cfg.Look(d.line.lane)
	}
}

// Withdraw ends the demand. Tasks granted to it that were not handed over go to others, or back to their lane.
func (d *Demand) Withdraw() {
	k := d.desk
	k.mu.Lock()
	defer k.mu.Unlock()
	if d.place == nil {
		return
	}
	l := d.line
	l.demands.Remove(d.place)
	d.place = nil
	d.forgetIfDone()
	if l.demands.Len() == 0 && k.closed == nil {
		delete(k.lines, l.lane)
		k.announce(l)
	}
}

// room is how many more tasks may be granted.
func (d *Demand) room() int {
	if d.granted >= d.total || d.sentBytes >= maxSentBytes {
		return 0
	}
	const most = 1 << 20 // more than any entry grants
	return int(min(d.total-d.granted, most))
}

// put adds a task to the next parcel.
func (d *Demand) put(t *fsmpb.Task) {
	size := t.SizeVT()
	d.parcel = append(d.parcel, t)
	d.sent = append(d.sent, size)
	d.sentBytes += size
}

// deliver hands the parcel over.
func (d *Demand) deliver() {
	d.consumer.Take(task.Leased{Tasks: d.parcel, Ready: d.line.ready})
	d.parcel = nil
}

// miss notes that a grant of the demand's does not reach it.
func (d *Demand) miss() {
	d.granted--
	d.coming--
	d.lookAgain()
	d.forgetIfDone()
}

// forgetIfDone lets go of a demand that was withdrawn, once no grant can name it any more.
func (d *Demand) forgetIfDone() {
	if d.place == nil && d.coming == 0 && !d.named {
		delete(d.desk.demands, d.tag)
	}
}
