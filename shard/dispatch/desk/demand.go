package desk

import (
	"container/list"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// maxSentBytes limits the bytes on their way to one consumer; the last task may exceed it.
const maxSentBytes = 8 << 20

// Demand is one consumer's standing demand for tasks of a lane. The desk's mutex guards its fields.
type Demand struct {
	desk     *Desk
	line     *line
	place    *list.Element // in line.demands; nil: withdrawn
	tag      uint64
	terms    Terms
	consumer Consumer

	total   uint64 // tasks that may be granted over its life
	granted uint64 // tasks granted and not given back; exceeds a lowered total
	coming  int    // granted tasks not yet started
	named   bool   // the entry being made may name the demand

	received  uint64 // tasks that arrived, by the consumer's report
	sent      []int  // sizes of tasks handed over and not yet reported as arrived, in order
	sentBytes int    // sum of sent

	parcel []*fsmpb.Task // tasks collected for the next Take

	look   uint64 // number of the last look that the consumer asked for; 0: none
	looked uint64 // number of the last look that was answered
}

// Set sets the number of tasks that may come over the demand's life, and the number that has arrived. A total below the
// number of tasks under way stops further ones. A look above the last one asks whether a task is there; see
// Consumer.Nothing.
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
		k.leadership.Look(d.line.lane)
	}
}

// lookAgain repeats an open look once no grant is on its way to the demand.
func (d *Demand) lookAgain() {
	if d.look > d.looked && d.coming == 0 && d.place != nil {
		d.desk.leadership.Look(d.line.lane)
	}
}

// Withdraw ends the demand. Granted tasks not yet handed over go to other demands or back to their lane.
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

// room returns the number of further tasks that may be granted.
func (d *Demand) room() int {
	if d.granted >= d.total || d.sentBytes >= maxSentBytes {
		return 0
	}
	const most = 1 << 20 // more tasks than any entry grants
	return int(min(d.total-d.granted, most))
}

// put adds a task to the next parcel.
func (d *Demand) put(t *fsmpb.Task) {
	size := t.SizeVT()
	d.parcel = append(d.parcel, t)
	d.sent = append(d.sent, size)
	d.sentBytes += size
}

// deliver hands the parcel to the consumer.
func (d *Demand) deliver() {
	d.consumer.Take(task.Leased{Tasks: d.parcel, Ready: d.line.ready, NextMs: d.line.nextMs})
	d.parcel = nil
}

// miss records that a grant for the demand does not reach it.
func (d *Demand) miss() {
	d.granted--
	d.coming--
	d.lookAgain()
	d.forgetIfDone()
}

// forgetIfDone deletes a withdrawn demand once no grant can name it any more.
func (d *Demand) forgetIfDone() {
	if d.place == nil && d.coming == 0 && !d.named {
		delete(d.desk.demands, d.tag)
	}
}
