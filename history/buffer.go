package history

import (
	"math"

	"github.com/belfryhq/belfry/history/historypb"
	"github.com/belfryhq/belfry/history/internal/segment"
)

// gapBytes is about the memory of a gap.
const gapBytes = 128

// chunk is events of one block that wait for the disk, or a gap.
type chunk struct {
	events *segment.Batch
	gap    *historypb.Block
	closed bool // no event joins the others
}

func (c chunk) bytes() int {
	if c.gap != nil {
		return gapBytes
	}
	return c.events.Bytes()
}

// buffer holds the events that wait for the disk, oldest first. It drops events beyond its limit until half of it is
// free.
type buffer struct {
	limit  int
	chunks []chunk
	bytes  int // of the chunks

	dropped *historypb.Block // gap behind the chunks; nil: no event is being dropped
}

// takes reports whether the buffer keeps the events of the next entry, or drops all of them. The last entry may exceed
// the limit.
func (b *buffer) takes() bool { return b.bytes < b.limit && (b.dropped == nil || b.bytes <= b.limit/2) }

// add keeps an event. A chunk that has the events of a block takes no more.
func (b *buffer) add(e *Event) {
	b.close()
	n := len(b.chunks)
	if n == 0 || b.chunks[n-1].closed {
		b.chunks = append(b.chunks, chunk{events: segment.NewBatch()})
		n++
	}
	last := &b.chunks[n-1]
	b.bytes -= last.events.Bytes()
	last.events.Add(e)
	b.bytes += last.events.Bytes()
	last.closed = last.events.Raw() >= blockBytes
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

// close makes a chunk of the gap behind the chunks.
func (b *buffer) close() {
	if b.dropped == nil {
		return
	}
	b.chunks = append(b.chunks, chunk{gap: b.dropped, closed: true})
	b.bytes += gapBytes
	b.dropped = nil
}

// next returns the oldest chunk, and keeps it until pop. There must be one.
func (b *buffer) next() *chunk {
	b.chunks[0].closed = true
	c := b.chunks[0]
	return &c
}

// ready reports whether the disk should take a chunk: another one has begun.
func (b *buffer) ready() bool { return len(b.chunks) > 1 }

// pop removes the oldest chunk.
func (b *buffer) pop() {
	c := b.chunks[0]
	b.bytes -= c.bytes()
	b.chunks = b.chunks[1:]
	if c.events != nil {
		c.events.Free()
	}
}

// remove removes the events of a namespace. The error is segment.ErrCorrupt.
func (b *buffer) remove(namespace string) error {
	kept := buffer{limit: b.limit}
	for _, c := range b.chunks {
		if c.gap != nil {
			kept.miss(c.gap.First, c.gap.Last)
			continue
		}
		events, err := c.events.After(Position{})
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.Namespace != namespace {
				kept.add(e)
			}
		}
	}
	kept.dropped = b.dropped
	*b = kept
	return nil
}

// view returns all chunks as they are now, for a reader.
func (b *buffer) view() []chunk {
	chunks := make([]chunk, 0, len(b.chunks)+1)
	for _, c := range b.chunks {
		if c.events != nil {
			c.events = c.events.View()
		}
		chunks = append(chunks, c)
	}
	if b.dropped != nil {
		chunks = append(chunks, chunk{gap: b.dropped})
	}
	return chunks
}

// endOf returns the last position of an entry.
func endOf(index uint64) Position { return Position{Index: index, Number: math.MaxUint32} }
