package slab

import (
	"encoding/binary"
	"math/bits"
)

const (
	minChunk = 1 << 10
	// maxChunk is large because the collector visits every chunk once a cycle, if only to see that it holds no
	// pointer. With ten million blobs, chunks of 64 KiB made a forced collection take twice as long. It is not larger
	// than 256 KiB because a place must fit 16 bits.
	maxChunk  = unit << placeBits
	maxChunks = uint32(largeRef >> placeBits)
	noSlot    = 1<<16 - 1
)

// chunkMeta is the state of one chunk of slots. Its free slots are those in the list that begins at free, and all
// slots from fresh on.
type chunkMeta struct {
	prev, next uint32 // neighbours in the class's list of chunks with a free slot; 0: none
	free       uint16 // first slot of the list, in units, or noSlot
	fresh      uint16 // slots from here on were never used, in units
	live       uint16 // slots in use; a chunk with none is given back
	class      uint8
}

// classState is the state of an arena's chunks of one slot size.
type classState struct {
	open uint32 // first chunk with a free slot; 0: none
	held int    // bytes of its chunks
}

// take returns a free slot: the number of its chunk, and its place there in units.
func (a *Arena) take(class int) (number uint32, place uint16) {
	number = a.classes[class].open
	if number == 0 {
		number = a.addChunk(class)
	}
	m, data := &a.meta[number], a.chunks[number]
	if m.free != noSlot {
		place, m.free = m.free, nextFree(data, m.free)
	} else {
		place = m.fresh
		m.fresh += uint16(slotSize(class) / unit)
	}
	m.live++
	a.used += int64(slotSize(class))
	if m.full(len(data)) {
		a.unlink(number)
	}
	return number, place
}

// release frees a slot, and gives its chunk away if no other slot of the chunk is in use.
func (a *Arena) release(number uint32, place uint16) {
	m, data := &a.meta[number], a.chunks[number]
	if data[int(place)*unit] == 0 {
		panic("slab: a blob is freed twice")
	}
	wasFull := m.full(len(data))
	setNextFree(data, place, m.free)
	m.free = place
	m.live--
	a.used -= int64(slotSize(int(m.class)))
	if wasFull {
		a.link(number)
	}
	if m.live == 0 {
		a.dropChunk(number)
	}
}

// full reports whether a chunk of this many bytes has no free slot.
func (m *chunkMeta) full(bytes int) bool {
	return m.free == noSlot && int(m.fresh)*unit+slotSize(int(m.class)) > bytes
}

// setNextFree marks a slot as free. A free slot begins with a zero byte, which no length does, and has the place of
// the next free slot in bytes 2 and 3.
func setNextFree(data []byte, place, next uint16) {
	at := int(place) * unit
	data[at] = 0
	binary.LittleEndian.PutUint16(data[at+2:], next)
}

func nextFree(data []byte, place uint16) uint16 {
	return binary.LittleEndian.Uint16(data[int(place)*unit+2:])
}

// addChunk gives the class another chunk, of up to a thirty-second of the class's bytes, within bounds. The last chunk
// is half empty on average, and so wastes about a hundredth of the class at any size.
func (a *Arena) addChunk(class int) uint32 {
	c := &a.classes[class]
	least := ceilPower(max(minChunk, slotSize(class)))
	size := ceilPower(min(max(least, c.held/64+1), maxChunk))
	number := a.newNumber()
	a.chunks[number] = a.newMemory(size)
	a.meta[number] = chunkMeta{class: uint8(class), free: noSlot}
	c.held += size
	a.link(number)
	return number
}

func (a *Arena) newMemory(size int) []byte {
	if size == maxChunk && a.spare != nil {
		data := a.spare
		a.spare = nil
		clear(data) // zero is the mark of free slots
		return data
	}
	a.held += int64(size)
	return make([]byte, size)
}

func (a *Arena) newNumber() uint32 {
	if n := len(a.numbers); n > 0 {
		number := a.numbers[n-1]
		a.numbers = a.numbers[:n-1]
		return number
	}
	number := uint32(len(a.chunks))
	if number == maxChunks {
		panic("slab: all addresses of an arena are in use")
	}
	a.chunks = append(a.chunks, nil)
	a.meta = append(a.meta, chunkMeta{})
	return number
}

// dropChunk gives an empty chunk away. It keeps one of full size for the next class that needs it, so that a blob that
// comes and goes does not allocate 256 KiB each time.
func (a *Arena) dropChunk(number uint32) {
	a.unlink(number)
	data := a.chunks[number]
	a.classes[a.meta[number].class].held -= len(data)
	a.chunks[number] = nil
	a.numbers = append(a.numbers, number)
	if len(data) == maxChunk && a.spare == nil {
		a.spare = data
		return
	}
	a.held -= int64(len(data))
}

// link puts a chunk first in its class's list of chunks with a free slot.
func (a *Arena) link(number uint32) {
	m := &a.meta[number]
	c := &a.classes[m.class]
	m.prev, m.next = 0, c.open
	if c.open != 0 {
		a.meta[c.open].prev = number
	}
	c.open = number
}

func (a *Arena) unlink(number uint32) {
	m := &a.meta[number]
	if m.prev != 0 {
		a.meta[m.prev].next = m.next
	} else {
		a.classes[m.class].open = m.next
	}
	if m.next != 0 {
		a.meta[m.next].prev = m.prev
	}
}

// ceilPower returns the least power of two that is at least n, where n > 0.
func ceilPower(n int) int { return 1 << bits.Len(uint(n-1)) }
