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

// use returns the backing file and opens it at the first call. The caller holds c.mu.
func (c *content) use() (backing, error) {
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
	file, err := c.use()
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
	file, err := c.use()
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
	file, err := c.use()
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
	file, err := c.use()
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
