package slab

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Frozen is a view of [Pages] at the moment of Freeze. Any goroutine may read it while the owner goes on. A page
// without a write since Freeze is read in place, any other page from its before-image.
type Frozen[T any] struct {
	chunks   [][]T
	pages    uint32
	kept     []keptChunk[T] // beside chunks
	released atomic.Bool
}

// keptChunk holds the before-images of one chunk. Each chunk has its own lock, so that a reader that runs through the
// pages at full speed almost never meets the owner.
type keptChunk[T any] struct {
	mu     sync.Mutex
	images *[chunkPages][]T
	// mask has bit i if images[i] is kept. The owner alone writes it, and so may read it without mu.
	mask uint64
}

// Pages returns the number of pages in the view.
func (f *Frozen[T]) Pages() int { return int(f.pages) }

// Page copies the PageRecords records of page i, 0 <= i < Pages(), to the beginning of dst and returns it. It grows
// dst if need be. Records that were not in use are zero. Page panics after Release.
func (f *Frozen[T]) Page(i int, dst []T) []T {
	if i < 0 || i >= int(f.pages) {
		panic(fmt.Sprintf("slab: page %d of %d is read", i, f.pages))
	}
	chunk, at := locate(uint32(i))
	k := &f.kept[chunk]
	k.mu.Lock()
	defer k.mu.Unlock()
	return append(dst[:0], f.page(chunk, at)...)
}

// At returns the record of a handle at the moment of Freeze. It is zero if the handle was not in use. At panics after
// Release.
func (f *Frozen[T]) At(h uint32) T {
	page := h / PageRecords
	if page >= f.pages {
		var zero T
		return zero
	}
	chunk, at := locate(page)
	k := &f.kept[chunk]
	k.mu.Lock()
	defer k.mu.Unlock()
	return f.page(chunk, at)[h%PageRecords]
}

// Release ends the view and drops its before-images. Any goroutine may call it, more than once.
func (f *Frozen[T]) Release() {
	if f.released.Swap(true) {
		return
	}
	for i := range f.kept {
		k := &f.kept[i]
		k.mu.Lock()
		k.images = nil // mask stays, it is the owner's
		k.mu.Unlock()
	}
}

// page returns a page at the moment of Freeze. The caller may read it while it holds the chunk's mu.
func (f *Frozen[T]) page(chunk, i uint32) []T {
	if f.released.Load() {
		panic("slab: frozen pages are read after their release")
	}
	if k := &f.kept[chunk]; k.mask>>i&1 != 0 {
		return k.images[i]
	}
	return pageOf(f.chunks[chunk], i)
}

// keep saves the before-image of a page that the owner is about to write, unless it is saved already. Only the owner
// calls keep.
func (f *Frozen[T]) keep(page uint32) {
	if page >= f.pages {
		return // the page was begun after Freeze
	}
	chunk, i := locate(page)
	k := &f.kept[chunk]
	if k.mask>>i&1 != 0 {
		return
	}
	image := slices.Clone(pageOf(f.chunks[chunk], i)) // outside the lock: two goroutines may read a page at once
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.images == nil {
		k.images = new([chunkPages][]T)
	}
	k.images[i] = image
	k.mask |= 1 << i
}

func pageOf[T any](records []T, i uint32) []T {
	return records[i*PageRecords : (i+1)*PageRecords]
}
