package history

import (
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

func TestBufferDropsUntilHalfIsFree(t *testing.T) {
	b := buffer{limit: 20 * blockBytes}
	index := uint64(0)
	add := func() bool {
		index++
		e := &Event{Index: index, Answer: string(make([]byte, MaxAnswer))}
		if !b.takes() {
			b.drop(e.TimedPosition(), e.TimedPosition())
			return false
		}
		b.add(e)
		return true
	}
	for add() {
	}
	first := index
	for b.bytes > b.limit/2 {
		if add() {
			t.Fatalf("entry %d is kept with %d of %d bytes taken", index, b.bytes, b.limit)
		}
		b.pop()
	}
	last := index
	if !add() || b.dropped != nil {
		t.Fatalf("entry %d is dropped with %d of %d bytes taken", index, b.bytes, b.limit)
	}
	chunks := b.view()
	gap := chunks[len(chunks)-2].gap
	if gap == nil || gap.First.Index != first || gap.Last.Index != last ||
		chunks[len(chunks)-1].events.First().Index != index {
		t.Fatalf("gap %v before the last chunk, want %d to %d", gap, first, last)
	}
	for range chunks {
		b.pop()
	}
	assert.MustEqual(t, b.bytes, 0, "bytes in an empty buffer")
}

func TestBlocksEndAtGaps(t *testing.T) {
	b := buffer{limit: 1 << 20}
	b.add(&Event{Index: 1})
	b.add(&Event{Index: 1, Number: 1})
	b.miss((&Event{Index: 2}).TimedPosition(), (&Event{Index: 3}).TimedPosition())
	b.add(&Event{Index: 4})
	for _, want := range []int{2, 0, 1} {
		n := 0
		if c := b.next(); c.events != nil {
			n = c.events.Len()
		}
		if n != want {
			t.Fatalf("a block of %d events, want %d", n, want)
		}
		b.pop()
	}
	assert.MustEqual(t, len(b.chunks), 0, "chunks are left")
}

// A view stays as it was while events are added, and the writer's block gets no more of them.
func TestViewAndNextStayAsTheyWere(t *testing.T) {
	b := buffer{limit: 1 << 20}
	b.add(&Event{Index: 1, Namespace: "a", Task: "x"})
	view := b.view()
	b.add(&Event{Index: 2, Namespace: "a", Task: "y"})
	next := b.next()
	b.add(&Event{Index: 3, Namespace: "a", Task: "z"})
	for name, c := range map[string]struct {
		events []chunk
		want   uint64
	}{"view": {view, 1}, "next": {[]chunk{*next}, 2}, "now": {b.view()[1:], 3}} {
		events, err := c.events[0].events.After(Position{})
		if err != nil || events[len(events)-1].Index != c.want || c.events[0].events.Last().Index != c.want {
			t.Errorf("%s: events %v, error %v; want the last of entry %d", name, events, err, c.want)
		}
	}
}

// The memory of a written block is used again only if no reader has seen it.
func TestViewOutlivesItsBlock(t *testing.T) {
	b := buffer{limit: 1 << 20}
	b.add(&Event{Index: 1, Namespace: "a", Task: "x"})
	view := b.view()
	b.next()
	b.pop()
	for i := range uint64(100) {
		b.add(&Event{Index: 2 + i, Namespace: "b", Task: "y"})
		b.next()
		b.pop()
	}
	events, err := view[0].events.After(Position{})
	if err != nil || len(events) != 1 || events[0].Index != 1 || events[0].Task != "x" {
		t.Errorf("events %v, error %v; want the one of entry 1", events, err)
	}
}
