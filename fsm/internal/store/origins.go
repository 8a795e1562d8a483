package store

import (
	"cmp"
	"encoding/base32"
	"encoding/binary"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/slots"
	"github.com/belfryhq/belfry/fsm/task"
)

// Origins are the random numbers that form webhook ids together with the numbers of occurrences. No two occurrences of
// one origin share a number.
type Origins struct {
	Own uint64 // from the first takeover; stays for the shard's life
	// Inherited are the origins of occurrences that began in other shards, sorted by Last. The messages are never changed.
	Inherited []*fsmpb.Inherited
}

// webhookEncoding is base32.HexEncoding in lower case and without padding.
var webhookEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

const (
	webhookPrefix  = "msg_"
	webhookIDBytes = len(webhookPrefix) + 26
)

// WebhookID returns an id that is unique to an occurrence of a task.
func (o *Origins) WebhookID(namespace, id string, occurrence uint64) string {
	var room [webhookIDBytes]byte
	return string(o.appendWebhookID(room[:0], namespace, id, occurrence))
}

// appendWebhookID appends the WebhookID to b.
func (o *Origins) appendWebhookID(b []byte, namespace, id string, occurrence uint64) []byte {
	var number [16]byte
	binary.BigEndian.PutUint64(number[:], o.find(namespace, id, occurrence))
	binary.BigEndian.PutUint64(number[8:], occurrence)
	return webhookEncoding.AppendEncode(append(b, webhookPrefix...), number[:])
}

// find returns the origin of the shard in which an occurrence of a task began.
func (o *Origins) find(namespace, id string, occurrence uint64) uint64 {
	if len(o.Inherited) == 0 || occurrence > o.Inherited[len(o.Inherited)-1].Last {
		return o.Own
	}
	slot := task.Slot(namespace, id)
	for _, i := range o.Inherited {
		if occurrence <= i.Last && i.FirstSlot <= slot && slot < i.EndSlot {
			return i.Origin
		}
	}
	return o.Own
}

// In returns the origins of the occurrences up to number in ranges of slots, as ReadySlots tells them to the target.
func (o *Origins) In(ranges []slots.Range, number uint64) []*fsmpb.Inherited {
	var part Origins
	for _, r := range ranges {
		part.inherit(r, *o, number)
	}
	part.sort()
	return part.Inherited
}

// inherit adds the origins of the occurrences in a range of slots of another shard, which has given numbers up to
// number.
func (o *Origins) inherit(r slots.Range, from Origins, number uint64) {
	for _, i := range from.Inherited {
		o.add(r.And(slots.Range{First: i.FirstSlot, End: i.EndSlot}), i.Last, i.Origin)
	}
	o.add(r, number, from.Own)
}

// add adds the origin of the occurrences up to last in a range of slots.
func (o *Origins) add(r slots.Range, last, origin uint64) {
	known := func(i *fsmpb.Inherited) bool {
		return i.FirstSlot == r.First && i.EndSlot == r.End && i.Last == last && i.Origin == origin
	}
	if r.First < r.End && origin != 0 && !slices.ContainsFunc(o.Inherited, known) {
		o.Inherited = append(o.Inherited,
			&fsmpb.Inherited{FirstSlot: r.First, EndSlot: r.End, Last: last, Origin: origin})
	}
}

func (o *Origins) sort() {
	slices.SortStableFunc(o.Inherited, func(a, b *fsmpb.Inherited) int {
		return cmp.Or(cmp.Compare(a.Last, b.Last), cmp.Compare(a.FirstSlot, b.FirstSlot))
	})
}
