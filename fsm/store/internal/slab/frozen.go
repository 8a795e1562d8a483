package slab

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Frozen is a view of [Pages] as they were at Freeze. Any goroutine may read it while the owner goes on. A page that
// has not been written since is read where it lies, any other from its before-image.
type Frozen[T any] struct {
	chunks   [][]T
	pages    uint32
	kept     []keptChunk[T] // beside chunks
	released atomic.Bool
}

// keptChunk holds the before-images of one chunk. One lock a chunk, rather than one for all, lets a reader that runs
// through the pages at full speed meet the owner almost never.
type keptChunk[T any] struct {
	mu     sync.Mutex
	images *[chunkPages][]T
	// mask has bit i if images[i] is kept. The owner alone writes it, and so may read it without mu.
	mask uint64
}

// Pages returns how many pages there are to read.
func (f *Frozen[T]) Pages() int { return int(f.pages) }

// Page copies the PageRecords records of page i, 0 <= i < Pages(), into dst, from its beginning and growing it if need
// be, and returns it. Records that were not in use are zero. It panics after Release.
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

// At returns the record of a handle as it was; zero if the handle was not in use. It panics after Release.
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

// Release ends the view and drops its before-images. It may be called from any goroutine, and again.
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

// page returns the page as it was, to be read while the chunk's mu is held.
func (f *Frozen[T]) page(chunk, i uint32) []T {
	if f.released.Load() {
		panic("slab: frozen pages are read after their release")
	}
	if k := &f.kept[chunk]; k.mask>>i&1 != 0 {
		return k.images[i]
	}
	return pageOf(f.chunks[chunk], i)
}

// keep saves the before-image of a page that the owner is about to write, unless that is done already. Only the owner
// calls it.
func (f *Frozen[T]) keep(page uint32) {
	if page >= f.pages {
		return // begun after Freeze
	}
	chunk, i := locate(page)
	k := &f.kept[chunk]
	if k.mask>>i&1 != 0 {
		return
	}
	image := slices.Clone(pageOf(f.chunks[chunk], i)) // outside the lock: to read a page twice at once is no race
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
