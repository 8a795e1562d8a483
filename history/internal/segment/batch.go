package segment

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/belfryhq/belfry/history/historypb"
)

// Batch is the events of one block, encoded as they are added: see Writer.Append. The zero Batch is empty. It is not
// safe for concurrent use, but a View is, while events are added to the original.
type Batch struct {
	raw    []byte // events, each with its length
	first  *historypb.TimedPosition
	last   *historypb.TimedPosition
	count  int
	runs   []run
	before historypb.Event // the last event, without its number
	lean   historypb.Event // reused
	keys   []Key           // of the tasks and namespaces, with repetitions
	usage  usage
	viewed bool // a View shares the memory
}

// unused has batches without events and with memory.
var unused = sync.Pool{New: func() any { return &Batch{} }}

// NewBatch returns an empty batch, perhaps with the memory of one that was freed.
func NewBatch() *Batch { return unused.Get().(*Batch) }

// Free ends the use of a batch. Views of it stay valid.
func (b *Batch) Free() {
	if !b.viewed {
		*b = Batch{raw: b.raw[:0], runs: b.runs[:0], keys: b.keys[:0]}
		unused.Put(b)
	}
}

// run is the place of an event that shares no field with the one before. A reader begins there.
type run struct {
	index uint64 // of its log entry
	at    int
}

// runBytes is the length of a run, which a reader may decode in vain.
const runBytes = 4 << 10

// Add encodes an event and adds it. The event must come after the last one. The batch keeps its texts and labels, which
// must not change.
func (b *Batch) Add(e *historypb.Event) {
	if b.count == 0 {
		b.first, b.last = e.TimedPosition(), e.TimedPosition()
		b.usage.byNamespace = map[string]*historypb.Usage{}
	}
	if n := len(b.runs); n == 0 || len(b.raw)-b.runs[n-1].at >= runBytes {
		b.runs = append(b.runs, run{e.Index, len(b.raw)})
		b.before.Reset()
	}
	lean := &b.lean
	leaveSame(lean, e, &b.before)
	size := lean.SizeVT()
	if b.usage.add(e, size) {
		b.keys = append(b.keys, NamespaceKey(e.Namespace))
	}
	b.keys = append(b.keys, TaskKey(e.Namespace, e.Task))
	b.grow(binary.MaxVarintLen64 + size)
	b.raw = binary.AppendUvarint(b.raw, uint64(size))
	b.raw = b.raw[:len(b.raw)+size]
	if _, err := lean.MarshalToSizedBufferVT(b.raw[len(b.raw)-size:]); err != nil {
		panic(fmt.Sprintf("segment: an event cannot be encoded: %v", err)) // the encoding of the message never fails
	}
	b.last.Index, b.last.Number, b.last.AtMs = e.Index, e.Number, e.AtMs
	b.count++
}

// grow makes room for some bytes of raw, in steps that reach the size of a block soon.
func (b *Batch) grow(size int) {
	if cap(b.raw)-len(b.raw) < size {
		b.raw = append(make([]byte, 0, 4*cap(b.raw)+max(size, 1280)), b.raw...)
	}
}

// Len returns the number of events.
func (b *Batch) Len() int { return b.count }

// Raw returns the bytes of the encoded events.
func (b *Batch) Raw() int { return len(b.raw) }

// Bytes returns about the memory that the batch takes.
func (b *Batch) Bytes() int { return len(b.raw) + 8*len(b.keys) + 16*len(b.runs) }

// First returns the position of the first event.
func (b *Batch) First() *historypb.TimedPosition { return b.first }

// Last returns the position of the last event.
func (b *Batch) Last() historypb.Position { return b.last.Position() }

// View returns the batch as it is now, for reading.
func (b *Batch) View() *Batch {
	b.viewed = true
	return &Batch{
		raw: slices.Clip(b.raw), runs: slices.Clip(b.runs), keys: slices.Clip(b.keys),
		first: b.first, last: b.last.CloneVT(), count: b.count,
	}
}

// Has reports whether the batch has an event with the key.
func (b *Batch) Has(k Key) bool { return slices.Contains(b.keys, k) }

// After returns the events of the entry at a position, of all later ones, and perhaps of some before. Their strings
// share the memory of the batch.
func (b *Batch) After(p historypb.Position) ([]*historypb.Event, error) {
	if b.count == 0 || b.last.Index < p.Index {
		return nil, nil
	}
	i, _ := slices.BinarySearchFunc(b.runs, p.Index, func(r run, index uint64) int {
		if r.index < index {
			return -1
		}
		return 1
	})
	return unmarshal(b.raw[b.runs[max(0, i-1)].at:])
}

// usage counts the bytes of events, before compression, by namespace.
type usage struct {
	byNamespace map[string]*historypb.Usage
	newest      *historypb.Usage // of the namespace of the last event
}

// add counts the bytes of an event. It reports whether the event before was of another namespace.
func (u *usage) add(e *historypb.Event, size int) (changed bool) {
	if changed = u.newest.GetNamespace() != e.Namespace || u.newest == nil; changed {
		if u.newest = u.byNamespace[e.Namespace]; u.newest == nil {
			u.newest = &historypb.Usage{Namespace: e.Namespace, First: e.TimedPosition(), Last: e.TimedPosition()}
			u.byNamespace[e.Namespace] = u.newest
		}
	}
	last := u.newest.Last
	u.newest.Bytes += int64(size)
	last.Index, last.Number, last.AtMs = e.Index, e.Number, e.AtMs
	return changed
}
