package slab

import (
	"sync/atomic"
	"unsafe"
)

// FrozenArena is a view of an [Arena] at the moment of Freeze. Any goroutine may read it while the owner goes on.
// Blobs do not change, and the room of blobs freed meanwhile is not used again before Release. The tables are safe to
// share too, because the owner changes only places that no Ref of that moment points to.
type FrozenArena struct {
	blobs
	released atomic.Bool
}

// Freeze returns a view of the present blobs. It panics if an earlier view has not been released.
func (a *Arena) Freeze() *FrozenArena {
	a.recycle()
	if a.frozen != nil {
		panic("slab: arena is frozen already")
	}
	a.frozen = &FrozenArena{blobs: a.blobs}
	return a.frozen
}

// Get returns a blob that existed at Freeze, or nil for Ref 0. The caller must not change it, and may use it only
// until Release. Get panics after Release.
func (f *FrozenArena) Get(r Ref) []byte {
	if f.released.Load() {
		panic("slab: a frozen arena is read after its release")
	}
	return f.get(r)
}

// Release ends the view. Any goroutine may call it, more than once. The owner's later calls of Put and Free recycle
// the blobs that were freed meanwhile, a few at each call.
func (f *FrozenArena) Release() { f.released.Store(true) }

// recycledPerCall is the number of blobs that a call recycles. It is more than the one blob that a call can free, so
// that recycling comes to an end, and so small that no call gets slow: each blob is likely a cache miss.
const recycledPerCall = 4

// recycle makes the room of blobs that were freed under a released view free again, a few at a time.
func (a *Arena) recycle() {
	if a.frozen != nil && a.frozen.released.Load() {
		a.frozen = nil
		a.loose.takeAll(&a.freed)
		a.looseBytes += a.freedBytes
		a.freedBytes = 0
	}
	for range recycledPerCall {
		r, ok := a.loose.pop()
		if !ok {
			return
		}
		a.looseBytes -= a.room(r)
		a.drop(r)
	}
}

const refBlock = 8 << 10 // Refs in a block of a refStack

// refStack is a stack that grows without copying its content.
type refStack struct {
	blocks [][]Ref // none is empty
}

func (s *refStack) push(r Ref) {
	n := len(s.blocks)
	if n == 0 || len(s.blocks[n-1]) == cap(s.blocks[n-1]) {
		s.blocks = append(s.blocks, make([]Ref, 0, refBlock))
		n++
	}
	s.blocks[n-1] = append(s.blocks[n-1], r)
}

func (s *refStack) pop() (r Ref, ok bool) {
	n := len(s.blocks)
	if n == 0 {
		return 0, false
	}
	last := s.blocks[n-1]
	r = last[len(last)-1]
	s.blocks[n-1] = last[:len(last)-1]
	if len(last) == 1 {
		s.blocks[n-1] = nil
		s.blocks = s.blocks[:n-1]
	}
	return r, true
}

// takeAll moves all Refs of other to the top of s.
func (s *refStack) takeAll(other *refStack) {
	s.blocks = append(s.blocks, other.blocks...)
	other.blocks = nil
}

func (s *refStack) bytes() int64 {
	return int64(len(s.blocks)) * refBlock * int64(unsafe.Sizeof(Ref(0)))
}
