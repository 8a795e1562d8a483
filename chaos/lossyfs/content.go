package lossyfs

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	pageSize   = 4096 // bytes that survive or are lost together, unless the page is torn
	sectorSize = 512  // bytes that are never torn
)

// backing is the part of a real file that content uses. The file holds the bytes that processes see.
type backing interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
}

// content is the bytes of one file. The backing file has the bytes that processes see. The other fields describe the
// bytes that the disk would have if the power failed now and no unsynced write had got there.
//
// Always: low <= durable, low <= size. Every page whose bytes may differ from the durable ones is in dirty.
type content struct {
	room *room
	open func() (backing, error) // opens the backing file at its first use

	mu      sync.Mutex // guards the fields below
	rand    *rand.Rand
	file    backing // nil: not opened yet
	size    int64   // as processes see it
	durable int64   // size at the last sync
	low     int64   // smallest size since the last sync
	changed time.Time
	dirty   map[int64]*page
	held    pageSet // pages that take room
}

// page is a page that was written to since the last sync.
type page struct {
	before   []byte // the durable content, without the zeros at its end
	forsaken bool   // a sync of the page failed: later syncs skip the page until it is written again
}

func newContent(room *room, r *rand.Rand, size int64, open func() (backing, error)) *content {
	c := &content{room: room, open: open, rand: r, size: size, durable: size, low: size, dirty: map[int64]*page{}}
	room.give(-c.held.add(0, pages(size)))
	return c
}

// pages returns the number of pages that hold size bytes.
func pages(size int64) int64 { return (size + pageSize - 1) / pageSize }

// backingFile returns the backing file and opens it at the first call. The caller holds c.mu.
func (c *content) backingFile() (backing, error) {
	if c.file != nil {
		return c.file, nil
	}
	file, err := c.open()
	if err == nil {
		c.file = file
	}
	return file, err
}

func (c *content) readAt(b []byte, off int64) (int, error) {
	c.mu.Lock()
	file, err := c.backingFile()
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	n, err := file.ReadAt(b, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// stat returns the size, the bytes that take room, and the time of the last change in this mount.
func (c *content) stat() (size, held int64, changed time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size, c.held.n * pageSize, c.changed
}

// writeAt writes as many bytes as there is room for. It returns ENOSPC if there is room for none.
func (c *content) writeAt(b []byte, off int64) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	file, err := c.backingFile()
	if err != nil || len(b) == 0 {
		return 0, err
	}
	b = b[:c.fitting(off, int64(len(b)))]
	if len(b) == 0 {
		return 0, syscall.ENOSPC
	}
	end := off + int64(len(b))
	for index := off / pageSize; index < pages(end); index++ {
		if err := c.touch(file, index); err != nil {
			return 0, err
		}
	}
	c.size, c.changed = max(c.size, end), time.Now()
	return file.WriteAt(b, off)
}

// fitting takes room for the pages of a range, from its start. It returns how many bytes of the range then have room.
func (c *content) fitting(off, n int64) int64 {
	first, end := off/pageSize, pages(off+n)
	for index := first; index < end; index++ {
		if c.held.has(index) {
			continue
		}
		if !c.room.take(1) {
			return max(index*pageSize-off, 0)
		}
		c.held.add(index, index+1)
	}
	return n
}

// allocate takes room for a range. If grow is set, it also extends a shorter file to the end of the range.
func (c *content) allocate(off, n int64, grow bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	file, err := c.backingFile()
	if err != nil {
		return err
	}
	if c.fitting(off, n) < n {
		return syscall.ENOSPC
	}
	if !grow || off+n <= c.size {
		return nil
	}
	c.size = off + n
	return file.Truncate(c.size)
}

func (c *content) truncate(size int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	file, err := c.backingFile()
	if err != nil {
		return err
	}
	for index := size / pageSize; index < pages(c.size); index++ {
		if err := c.touch(file, index); err != nil {
			return err
		}
	}
	if err := file.Truncate(size); err != nil {
		return err
	}
	c.size, c.low, c.changed = size, min(c.low, size), time.Now()
	c.room.give(c.held.cut(pages(size)))
	return nil
}

// writtenBack is the average number of writes to a dirty page for each time that the kernel writes the page back.
const writtenBack = 4

// touch notes the durable content of a page before the page is changed.
func (c *content) touch(file backing, index int64) error {
	p := c.dirty[index]
	if p == nil {
		before, err := c.pageNow(file, index)
		if err != nil {
			return err
		}
		c.dirty[index] = &page{before: before}
		return nil
	}
	p.forsaken = false
	// An unsynced cut may be lost as a whole. Its pages must then come back whole, so they are not written back one by
	// one.
	if cut := c.low < c.durable && (index+1)*pageSize > c.low; cut || c.rand.IntN(writtenBack) > 0 {
		return nil
	}
	before, err := c.pageNow(file, index)
	if err == nil {
		p.before = before
	}
	return err
}

// pageNow returns the content of a page as processes see it, without the zeros at its end.
func (c *content) pageNow(file backing, index int64) ([]byte, error) {
	n := min(c.size-index*pageSize, pageSize)
	if n <= 0 {
		return nil, nil
	}
	b := make([]byte, n)
	if got, err := file.ReadAt(b, index*pageSize); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	} else if got < len(b) {
		b = b[:got]
	}
	b = bytes.TrimRight(b, "\x00")
	if len(b) == 0 {
		return nil, nil
	}
	return b, nil
}

// sync makes everything durable except the pages whose sync has failed.
func (c *content) sync() {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.dirty, func(_ int64, p *page) bool { return !p.forsaken })
	c.durable, c.low = c.size, c.size
}

// forsake applies a failed sync: from then on the kernel takes the unwritten pages for written.
func (c *content) forsake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.dirty {
		p.forsaken = true
	}
}

// end gives back the room of a file that no longer exists, and closes its backing file.
func (c *content) end() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room.give(c.held.cut(0))
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}

// unsynced returns the numbers of the dirty pages in order.
func (c *content) unsynced() []int64 { return slices.Sorted(maps.Keys(c.dirty)) }

// tornOne is the average number of unsynced pages that got to the disk for each torn one among them.
const tornOne = 8

// lose turns the file into one that a power loss leaves, and forgets the rest. No process uses the file meanwhile.
func (c *content) lose() (lost Stats, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if clean := len(c.dirty) == 0 && c.size == c.durable && c.low == c.size; clean {
		return lost, nil
	}
	file, err := c.backingFile()
	if err != nil {
		return lost, err
	}
	size, cutLost := c.sizeLeft()
	if err := file.Truncate(size); err != nil {
		return lost, err
	}
	chance := c.rand.IntN(5) // out of 4, that a page has got to the disk
	for _, index := range c.unsynced() {
		p := c.dirty[index]
		fate := survived
		switch {
		case index*pageSize >= size:
			fate = dropped
		case cutLost && (index+1)*pageSize > c.low, p.forsaken, c.rand.IntN(4) >= chance:
			fate = dropped
		case c.rand.IntN(tornOne) == 0:
			fate = torn
		}
		if err := restore(file, index, size, p.before, fate, c.rand); err != nil {
			return lost, err
		}
		lost.count(fate)
	}
	return lost, nil
}

// sizeLeft decides the length of the file, and whether an unsynced cut was lost as a whole. A lost cut takes all later
// writes behind the cut with it. A cut that was kept leaves nothing durable behind it.
func (c *content) sizeLeft() (size int64, cutLost bool) {
	if c.low < c.durable {
		if c.rand.IntN(2) == 0 {
			return c.durable, true
		}
		c.forgetFrom(c.low)
		c.durable = c.low
	}
	between := c.durable
	if first, last := pages(c.durable), pages(c.size); last > first {
		between = (first + c.rand.Int64N(last-first)) * pageSize
	}
	return [...]int64{c.durable, between, c.size}[c.rand.IntN(3)], false
}

// forgetFrom cuts the durable content to a size.
func (c *content) forgetFrom(size int64) {
	for index, p := range c.dirty {
		if keep := max(size-index*pageSize, 0); keep < int64(len(p.before)) {
			p.before = p.before[:keep]
		}
	}
}

// fate is the outcome of a power loss for one unsynced page.
type fate int

const (
	survived fate = iota
	torn
	dropped
)

// restore puts the durable content back into a page, or into some of its sectors if the page is torn.
func restore(file backing, index, size int64, before []byte, f fate, r *rand.Rand) error {
	var old [pageSize]byte
	copy(old[:], before)
	for at := int64(0); at < pageSize; at += sectorSize {
		off := index*pageSize + at
		n := min(size-off, sectorSize)
		if n <= 0 || f == survived || f == torn && r.IntN(2) == 0 {
			continue
		}
		if _, err := file.WriteAt(old[at:at+n], off); err != nil {
			return err
		}
	}
	return nil
}

// pageSet is a set of a file's pages. Its zero value is empty.
type pageSet struct {
	bits []uint64
	n    int64 // number of pages in the set
}

func (s *pageSet) has(index int64) bool {
	word := index / 64
	return word < int64(len(s.bits)) && s.bits[word]&(1<<(index%64)) != 0
}

// add adds the pages from first to before end, and returns how many of them were not in the set before.
func (s *pageSet) add(first, end int64) int64 {
	before := s.n
	for index := first; index < end; index++ {
		if s.has(index) {
			continue
		}
		for index/64 >= int64(len(s.bits)) {
			s.bits = append(s.bits, 0)
		}
		s.bits[index/64] |= 1 << (index % 64)
		s.n++
	}
	return s.n - before
}

// cut removes all pages from first on, and returns how many it removed.
func (s *pageSet) cut(first int64) int64 {
	before := s.n
	for index := first; index < int64(len(s.bits))*64; index++ {
		if s.has(index) {
			s.bits[index/64] &^= 1 << (index % 64)
			s.n--
		}
	}
	return before - s.n
}
