package slab

import (
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"unsafe"
)

// PageRecords is the number of records in a page. With records of 64 bytes a page is 4 KiB. The records of page i have
// the handles i*PageRecords to i*PageRecords+PageRecords-1.
const PageRecords = 64

// The first chunks have 1, 1, 2, 4, … 32 pages, so that a small slab is small. All later ones have 64 pages.
const (
	chunkPages   = 64
	chunkRecords = chunkPages * PageRecords
	smallChunks  = 7 // they hold chunkPages pages together
	maxPages     = 1 << 32 / PageRecords
	noPage       = math.MaxUint32
)

// Pages holds records of type T, which must be free of pointers, under handles. Records never move: growing adds a
// chunk of at most 64 pages and copies nothing. Chunks are kept until the whole slab is dropped.
//
// A record that is not in use is T's zero value. A reader of a [Frozen] recognises unused records by it, if the owner
// keeps a record in use from ever being all zero.
type Pages[T any] struct {
	chunks [][]T
	vacant [][]vacancy // beside chunks, one for each page
	begun  uint32      // pages below this are in a chunk, and their records have been offered
	open   uint32      // first page with a free record, or noPage
	live   int
	frozen *Frozen[T] // the last view, unless it is known to be released
}

// vacancy records the free places of a page. It is separate from the records, so that Alloc touches no cold record and
// a page image holds only records. It takes a quarter of a byte a record, in use or not.
type vacancy struct {
	free uint64 // bit i: record i is free, and is zero
	next uint32 // the next open page, or noPage; meaningless unless free != 0
}

// NewPages returns an empty slab. It panics if T holds pointers or has no size.
func NewPages[T any]() *Pages[T] {
	t := reflect.TypeFor[T]()
	if t.Size() == 0 || !pointerFree(t) {
		panic(fmt.Sprintf("slab: %v is not a record without pointers", t))
	}
	return &Pages[T]{open: noPage}
}

// Alloc returns a handle that was not in use; its record is zero. Zero is never a handle. The page that was opened
// last is used first: its record is likely still cached, and a snapshot keeps fewer pages.
func (s *Pages[T]) Alloc() uint32 {
	if s.open == noPage {
		s.begin()
	}
	page := s.open
	v := s.vacancy(page)
	i := bits.TrailingZeros64(v.free)
	v.free &= v.free - 1
	if v.free == 0 {
		s.open = v.next
	}
	s.live++
	return page*PageRecords + uint32(i)
}

// Free zeroes the record and frees its handle. It panics if the handle is not in use.
func (s *Pages[T]) Free(h uint32) {
	page, bit := h/PageRecords, uint64(1)<<(h%PageRecords)
	v := s.vacancy(page)
	if h == 0 || v.free&bit != 0 {
		panic(fmt.Sprintf("slab: handle %d is freed, but not in use", h))
	}
	var zero T
	*s.Write(h) = zero
	if v.free == 0 {
		v.next, s.open = s.open, page
	}
	v.free |= bit
	s.live--
}

// Read returns the record of a handle in use. The caller must not change it.
func (s *Pages[T]) Read(h uint32) *T {
	if h >= chunkRecords {
		return &s.chunks[h/chunkRecords+smallChunks-1][h%chunkRecords]
	}
	return s.readSmall(h)
}

func (s *Pages[T]) readSmall(h uint32) *T {
	chunk, i := locate(h / PageRecords)
	return &s.chunks[chunk][i*PageRecords+h%PageRecords]
}

// Write returns the record of a handle in use, for the caller to change. The pointer is valid until the next Freeze or
// until the handle is freed. Writing through it after a Freeze would change the frozen view.
func (s *Pages[T]) Write(h uint32) *T {
	if s.frozen != nil {
		s.keep(h / PageRecords)
	}
	return s.Read(h)
}

// Len returns the number of handles in use.
func (s *Pages[T]) Len() int { return s.live }

// Bytes returns the bytes that the slab holds, with free records and without before-images.
func (s *Pages[T]) Bytes() int64 {
	var zero T
	perPage := PageRecords*int64(unsafe.Sizeof(zero)) + int64(unsafe.Sizeof(vacancy{}))
	headers := int64(cap(s.chunks)+cap(s.vacant)) * int64(unsafe.Sizeof([]T(nil)))
	return int64(pagesIn(len(s.chunks)))*perPage + headers
}

// FreeBytes returns how many of the bytes held belong to records that are not in use.
func (s *Pages[T]) FreeBytes() int64 {
	var zero T
	return (int64(pagesIn(len(s.chunks)))*PageRecords - int64(s.live)) * int64(unsafe.Sizeof(zero))
}

// Freeze returns a view of the present records. It costs three words a chunk. It panics if an earlier view has not
// been released.
func (s *Pages[T]) Freeze() *Frozen[T] {
	if s.frozen != nil && !s.frozen.released.Load() {
		panic("slab: pages are frozen already")
	}
	n := len(s.chunks)
	s.frozen = &Frozen[T]{chunks: s.chunks[:n:n], pages: s.begun, kept: make([]keptChunk[T], n)}
	return s.frozen
}

func (s *Pages[T]) keep(page uint32) {
	if s.frozen.released.Load() {
		s.frozen = nil
		return
	}
	s.frozen.keep(page)
}

// begin opens the next page. The caller calls it only if no other page is open.
func (s *Pages[T]) begin() {
	page := s.begun
	if page == maxPages {
		panic("slab: all 2^32 handles are in use")
	}
	if chunk, _ := locate(page); int(chunk) == len(s.chunks) {
		n := pagesIn(len(s.chunks)+1) - pagesIn(len(s.chunks))
		s.chunks = append(s.chunks, make([]T, n*PageRecords))
		s.vacant = append(s.vacant, make([]vacancy, n))
	}
	*s.vacancy(page) = vacancy{free: math.MaxUint64, next: noPage}
	if page == 0 {
		s.vacancy(page).free &^= 1 // handle 0
	}
	s.open = page
	s.begun++
}

func (s *Pages[T]) vacancy(page uint32) *vacancy {
	chunk, i := locate(page)
	return &s.vacant[chunk][i]
}

// locate returns the chunk of a page and the page's index in the chunk.
func locate(page uint32) (chunk, i uint32) {
	if page >= chunkPages {
		return page/chunkPages + smallChunks - 1, page % chunkPages
	}
	chunk = uint32(bits.Len32(page))
	return chunk, page - 1<<chunk>>1
}

// pagesIn returns the number of pages in the first n chunks.
func pagesIn(n int) int {
	switch {
	case n == 0:
		return 0
	case n <= smallChunks:
		return 1 << (n - 1)
	}
	return chunkPages * (n - smallChunks + 1)
}

func pointerFree(t reflect.Type) bool {
	switch kind := t.Kind(); kind {
	case reflect.Array:
		return pointerFree(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !pointerFree(t.Field(i).Type) {
				return false
			}
		}
		return true
	default:
		// Uintptr counts as free of pointers: to the collector it is a number.
		return reflect.Bool <= kind && kind <= reflect.Complex128
	}
}
