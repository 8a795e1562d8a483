package slab

import (
	"encoding/binary"
	"unsafe"
)

// Ref addresses a blob in an [Arena]. Zero addresses none.
type Ref uint32

// A Ref with largeRef set is an index into the table of large blobs. Any other is the number of a chunk above, and the
// slot's place in it, in units, below: 16 GiB in all for blobs of up to 8 KiB.
const (
	largeRef  Ref = 1 << 31
	placeBits     = 15
	placeMask     = 1<<placeBits - 1
)

// Arena holds immutable blobs. Small ones lie in slots of chunks of one slot size each, behind their length as a
// uvarint; large ones each have their own allocation. A chunk whose last blob is freed goes back to the collector, or
// to the next class that needs one.
//
// An Arena whose addresses are used up (16 GiB of blobs of up to 8 KiB) panics: the owner limits its memory long
// before.
type Arena struct {
	blobs
	meta    []chunkMeta // beside blobs.chunks
	classes [classes]classState
	numbers []uint32 // free places in blobs.chunks
	indexes []uint32 // free places in blobs.large
	spare   []byte   // one empty chunk of full size, or nil

	held int64 // bytes of all chunks, spare included, and large blobs
	used int64 // of these, bytes of slots in use and of large blobs
	live int64 // bytes of all blobs

	frozen *FrozenArena // the last view, unless it is known to be released
	freed  refStack     // freed since the view was taken: their bytes stay
	loose  refStack     // freed, and no view needs them: their slots are recycled a few at a time

	freedBytes, looseBytes int64 // of used: those of freed and of loose
}

// blobs is where blobs lie: all that reading takes.
type blobs struct {
	chunks [][]byte // by chunk number; 0 is never used
	large  [][]byte
}

// NewArena returns an empty arena.
func NewArena() *Arena {
	return &Arena{blobs: blobs{chunks: make([][]byte, 1)}, meta: make([]chunkMeta, 1)}
}

// Put copies b into the arena. An empty b is no blob: its Ref is 0.
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

// Get returns the blob, to be read only, and only until it is freed; nil for Ref 0. It panics if the blob is freed.
func (a *Arena) Get(r Ref) []byte { return a.get(r) }

// Free gives the blob up; nothing happens for Ref 0. It panics if the blob is freed already.
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

// Bytes returns what the arena holds, free slots and tables included.
func (a *Arena) Bytes() int64 {
	const header = int64(unsafe.Sizeof([]byte(nil)))
	tables := int64(cap(a.chunks)+cap(a.large))*header + int64(cap(a.meta))*int64(unsafe.Sizeof(chunkMeta{})) +
		int64(cap(a.numbers)+cap(a.indexes))*int64(unsafe.Sizeof(uint32(0)))
	return a.held + tables + a.freed.bytes() + a.loose.bytes()
}

// FreeBytes returns how many of the bytes held are free, for blobs to come. What was freed under a view is not before
// that is released; from then on each Put gives back the room of more than it takes.
func (a *Arena) FreeBytes() int64 {
	free := a.held - a.used + a.looseBytes
	if a.frozen != nil && a.frozen.released.Load() {
		free += a.freedBytes
	}
	return free
}

// Live returns the sum of the lengths of all blobs. It depends on nothing but them.
func (a *Arena) Live() int64 { return a.live }

// room is what a blob takes of used.
func (a *Arena) room(r Ref) int64 {
	if r < largeRef {
		return int64(slotSize(int(a.meta[uint32(r)>>placeBits].class)))
	}
	return int64(cap(a.large[r&^largeRef]))
}

// drop makes the room of a blob free for others.
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
	// No blob is empty, so no length begins with a zero byte: that is the mark of a free slot.
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
	return 3 // no slot is long enough for more
}
