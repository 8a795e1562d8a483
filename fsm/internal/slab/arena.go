package slab

import (
	"encoding/binary"
	"unsafe"
)

// Ref is the address of a blob in an [Arena]. Zero is the address of no blob.
type Ref uint32

// A Ref with largeRef set is an index into the table of large blobs. Any other Ref has the number of a chunk in the
// upper bits and the slot's place in the chunk, in units, in the lower ones. It addresses 16 GiB of blobs of up to 8
// KiB.
const (
	largeRef  Ref = 1 << 31
	placeBits     = 15
	placeMask     = 1<<placeBits - 1
)

// Arena holds immutable blobs. Small ones lie in slots, behind their length as a uvarint; all slots of a chunk have
// the same size. Large ones each have their own allocation. A chunk whose last blob is freed goes back to the
// collector, or to the next class that needs one.
//
// An Arena panics when it has used up its addresses (16 GiB of blobs of up to 8 KiB). Its owner limits its memory long
// before.
type Arena struct {
	blobs
	meta    []chunkMeta // beside blobs.chunks
	classes [classes]classState
	numbers []uint32 // free places in blobs.chunks
	indexes []uint32 // free places in blobs.large
	spare   []byte   // one empty chunk of full size, or nil

	held int64 // bytes of all chunks, spare included, and of large blobs
	used int64 // the part of held in used slots and large blobs
	live int64 // bytes of all blobs

	frozen *FrozenArena // the last view, unless it is known to be released
	freed  refStack     // freed since the view was taken: their bytes must stay
	loose  refStack     // freed, and needed by no view: their slots are recycled a few at a time

	freedBytes, looseBytes int64 // the parts of used that belong to freed and to loose
}

// blobs holds the memory of the blobs, which is all that reading needs.
type blobs struct {
	chunks [][]byte // by chunk number; 0 is never used
	large  [][]byte
}

// NewArena returns an empty arena.
func NewArena() *Arena {
	return &Arena{blobs: blobs{chunks: make([][]byte, 1)}, meta: make([]chunkMeta, 1)}
}

// Put copies b into the arena and returns its Ref. An empty b is no blob: its Ref is 0.
func (a *Arena) Put(b []byte) Ref {
	a.recycle()
	if len(b) == 0 {
		return 0
	}
	a.live += int64(len(b))
	size := uvarintLen(len(b)) + len(b)
	if size > maxSlot {
		return a.putLarge(b)
	}
	number, place := a.take(classFor(size))
	slot := a.chunks[number][int(place)*unit:]
	w := binary.PutUvarint(slot, uint64(len(b)))
	copy(slot[w:], b)
	return Ref(number<<placeBits | uint32(place))
}

// Get returns a blob, or nil for Ref 0. The caller must not change it, and may use it only until the blob is freed.
// Get panics if the blob is freed already.
func (a *Arena) Get(r Ref) []byte { return a.get(r) }

// Free frees a blob. It does nothing for Ref 0, and panics if the blob is freed already.
func (a *Arena) Free(r Ref) {
	a.recycle()
	if r == 0 {
		return
	}
	a.live -= int64(len(a.get(r)))
	if a.frozen != nil {
		a.freed.push(r)
		a.freedBytes += a.room(r)
		return
	}
	a.drop(r)
}

// Bytes returns the bytes that the arena holds, free slots and tables included.
func (a *Arena) Bytes() int64 {
	const header = int64(unsafe.Sizeof([]byte(nil)))
	tables := int64(cap(a.chunks)+cap(a.large))*header + int64(cap(a.meta))*int64(unsafe.Sizeof(chunkMeta{})) +
		int64(cap(a.numbers)+cap(a.indexes))*int64(unsafe.Sizeof(uint32(0)))
	return a.held + tables + a.freed.bytes() + a.loose.bytes()
}

// FreeBytes returns how many of the bytes held are free for new blobs. Blobs that were freed under a view do not count
// until its release. From then on each Put recycles more room than it takes.
func (a *Arena) FreeBytes() int64 {
	free := a.held - a.used + a.looseBytes
	if a.frozen != nil && a.frozen.released.Load() {
		free += a.freedBytes
	}
	return free
}

// Live returns the sum of the lengths of all blobs. It depends only on the blobs, not on their places.
func (a *Arena) Live() int64 { return a.live }

// room returns the bytes of used that a blob takes.
func (a *Arena) room(r Ref) int64 {
	if r < largeRef {
		return int64(slotSize(int(a.meta[uint32(r)>>placeBits].class)))
	}
	return int64(cap(a.large[r&^largeRef]))
}

// drop makes the room of a blob free for other blobs.
func (a *Arena) drop(r Ref) {
	if r < largeRef {
		a.release(uint32(r)>>placeBits, uint16(r&placeMask))
		return
	}
	i := uint32(r &^ largeRef)
	a.held -= int64(cap(a.large[i]))
	a.used -= int64(cap(a.large[i]))
	a.large[i] = nil
	a.indexes = append(a.indexes, i)
}

func (a *Arena) putLarge(b []byte) Ref {
	own := append([]byte(nil), b...)
	a.held += int64(cap(own))
	a.used += int64(cap(own))
	if n := len(a.indexes); n > 0 {
		i := a.indexes[n-1]
		a.indexes = a.indexes[:n-1]
		a.large[i] = own
		return largeRef | Ref(i)
	}
	a.large = append(a.large, own)
	return largeRef | Ref(len(a.large)-1)
}

func (b *blobs) get(r Ref) []byte {
	if r == 0 {
		return nil
	}
	if r >= largeRef {
		return b.getLarge(r)
	}
	slot := b.chunks[r>>placeBits][int(r&placeMask)*unit:]
	// No blob is empty, so no length begins with a zero byte. A zero byte therefore marks a free slot.
	n, w := binary.Uvarint(slot)
	if n == 0 {
		panic("slab: a freed blob is used")
	}
	end := w + int(n)
	return slot[w:end:end]
}

func (b *blobs) getLarge(r Ref) []byte {
	own := b.large[r&^largeRef]
	if own == nil {
		panic("slab: a freed blob is used")
	}
	return own[:len(own):len(own)]
}

func uvarintLen(n int) int {
	switch {
	case n < 1<<7:
		return 1
	case n < 1<<14:
		return 2
	}
	return 3 // no slot is long enough for a longer length
}
