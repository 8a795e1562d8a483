package history

import "testing"

func TestBufferDropsUntilHalfIsFree(t *testing.T) {
	b := buffer{limit: 20 * recordBytes}
	index := uint64(0)
	add := func() bool {
		index++
		return b.add([]*Event{{Index: index}})
	}
	for add() {
	}
	first := index
	for b.bytes > b.limit/2 {
		if add() {
			t.Fatalf("entry %d is kept with %d of %d bytes taken", index, b.bytes, b.limit)
		}
		b.pop(1)
	}
	last := index
	if !add() || b.dropped != nil {
		t.Fatalf("entry %d is dropped with %d of %d bytes taken", index, b.bytes, b.limit)
	}
	records := b.view()
	gap := records[len(records)-2].gap
	if gap == nil || gap.First.Index != first || gap.Last.Index != last || records[len(records)-1].event.Index != index {
		t.Fatalf("gap %v before the last record, want %d to %d", gap, first, last)
	}
	b.pop(len(records))
	if b.bytes != 0 {
		t.Fatalf("%d bytes in an empty buffer", b.bytes)
	}
}

func TestBlocksEndAtGaps(t *testing.T) {
	b := buffer{limit: 1 << 20}
	b.add([]*Event{{Index: 1}, {Index: 1, Number: 1}})
	b.miss((&Event{Index: 2}).TimedPosition(), (&Event{Index: 3}).TimedPosition())
	b.add([]*Event{{Index: 4}})
	for _, want := range []int{2, 1, 1, 0} {
		n := len(b.next())
		if n != want {
			t.Fatalf("a block of %d records, want %d", n, want)
		}
		b.pop(n)
	}
}
