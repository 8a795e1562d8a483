package history

import (
	"math"
	"slices"

	"github.com/belfryhq/belfry/history/historypb"
)

// recordBytes is the memory of an event beside its encoded size.
const recordBytes = 128

// record is an event that waits for the disk, or a gap.
type record struct {
	event *Event
	gap   *historypb.Block
	size  int // encoded bytes of the event
}

// buffer holds the records that wait for the disk, oldest first. It drops events beyond its limit until half of it is
// free. Readers may keep a view of its records, so it changes none in place.
type buffer struct {
	limit   int
	records []record
	bytes   int // of the records

	dropped *historypb.Block // gap behind the records; nil: no event is being dropped
}

// add takes the events of one entry, or drops all of them and returns false. The last entry may exceed the limit.
func (b *buffer) add(events []*Event) bool {
	if b.bytes >= b.limit || b.dropped != nil && b.bytes > b.limit/2 {
		b.drop(events[0].TimedPosition(), events[len(events)-1].TimedPosition())
		return false
	}
	b.close()
	for _, e := range events {
		r := record{event: e, size: e.SizeVT()}
		b.records = append(b.records, r)
		b.bytes += r.size + recordBytes
	}
	return true
}

// miss adds a gap of another cause.
func (b *buffer) miss(first, last *historypb.TimedPosition) {
	b.close()
	b.drop(first, last)
	b.close()
}

func (b *buffer) drop(first, last *historypb.TimedPosition) {
	if b.dropped != nil {
		first = b.dropped.First
	}
	b.dropped = &historypb.Block{First: first, Last: last}
}

// close makes a record of the gap behind the records.
func (b *buffer) close() {
	if b.dropped == nil {
		return
	}
	b.records = append(b.records, record{gap: b.dropped})
	b.bytes += recordBytes
	b.dropped = nil
}

// next returns the records of the next block: one gap, or events of about 64 KiB.
func (b *buffer) next() []record {
	bytes := 0
	for i, r := range b.records {
		if r.gap != nil {
			return b.records[:max(i, 1):max(i, 1)]
		}
		if bytes += r.size; bytes >= blockBytes {
			return b.records[: i+1 : i+1]
		}
	}
	return slices.Clip(b.records)
}

// ready reports whether the disk should take a block: the next one is whole, or a gap.
func (b *buffer) ready() bool { return b.bytes >= 2*blockBytes }

// pop removes the first n records.
func (b *buffer) pop(n int) {
	for _, r := range b.records[:n] {
		b.bytes -= r.size + recordBytes
	}
	b.records = b.records[n:]
}

// remove removes the events of a namespace.
func (b *buffer) remove(namespace string) {
	kept := make([]record, 0, len(b.records))
	b.bytes = 0
	for _, r := range b.records {
		if r.event == nil || r.event.Namespace != namespace {
			kept = append(kept, r)
			b.bytes += r.size + recordBytes
		}
	}
	b.records = kept
}

// view returns all records, for a reader.
func (b *buffer) view() []record {
	records := slices.Clip(b.records)
	if b.dropped != nil {
		records = append(records, record{gap: b.dropped})
	}
	return records
}

// endOf returns the last position of an entry.
func endOf(index uint64) Position { return Position{Index: index, Number: math.MaxUint32} }
