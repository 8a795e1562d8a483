package logstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"go.etcd.io/bbolt"
)

// The layout of a bolt file, version 2, in the machine's own byte order, after bbolt's internal/common. A page begins
// with a header: id u64, flags u16, count u16, overflow u32 (the number of further pages that belong to it). Behind the
// header stand count elements of 16 bytes:
//
//	branch:    position u32, key length u32, page id u64
//	leaf:      flags u32, position u32, key length u32, value length u32
//	free list: page ids u64
//
// A position counts from the start of its element. The value of a leaf's element may be a bucket: root page id u64,
// sequence u64, and, with a root of 0, an inline page.
const (
	boltHeader  = 16
	boltElement = 16
	boltPageID  = 8

	boltBranch   = 0x01
	boltLeaf     = 0x02
	boltFreelist = 0x10

	boltIsBucket     = 0x01
	boltManyFree     = 0xffff // this count means that the number stands in the first element
	boltNoFreelist   = ^uint64(0)
	boltMetaFreelist = boltHeader + 32 // offset of the free list's page id in the meta page
	boltMetaPages    = boltMetaFreelist + 8
)

// boltPages checks the pages of a bolt file before bbolt follows them. bbolt itself trusts every length, number and id
// in them, reads beyond the file or goes in circles, and takes all memory on the way.
type boltPages struct {
	file     io.ReaderAt
	pageSize int
	pages    uint64              // number of pages that the file uses
	seen     map[uint64]struct{} // pages that belong to the tree or the free list
}

// checkBoltPages checks all pages that tx could visit, against the bytes of its file.
func checkBoltPages(tx *bbolt.Tx, file io.ReaderAt) error {
	p := boltPages{file: file, pageSize: tx.DB().Info().PageSize, seen: map[uint64]struct{}{}}
	// The two meta pages take turns.
	meta := make([]byte, boltMetaPages+8)
	if _, err := file.ReadAt(meta, int64(tx.ID()%2*p.pageSize)); err != nil {
		return fmt.Errorf("reading the meta page: %w", boltEnd(err))
	}
	p.pages = binary.NativeEndian.Uint64(meta[boltMetaPages:])
	if err := p.tree(uint64(tx.Cursor().Bucket().RootPage())); err != nil {
		return err
	}
	freelist := binary.NativeEndian.Uint64(meta[boltMetaFreelist:])
	if freelist == boltNoFreelist {
		return nil
	}
	return p.free(freelist)
}

// tree checks a page and everything below it.
func (p *boltPages) tree(id uint64) error {
	page, err := p.read(id)
	if err != nil {
		return err
	}
	if err := p.elements(page); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// read returns a page with its header and marks it as seen.
func (p *boltPages) read(id uint64) ([]byte, error) {
	if err := p.take(id, 1); err != nil {
		return nil, err
	}
	header := make([]byte, boltHeader)
	if _, err := p.file.ReadAt(header, int64(id)*int64(p.pageSize)); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, boltEnd(err))
	}
	if own := binary.NativeEndian.Uint64(header); own != id {
		return nil, fmt.Errorf("%w: page %d says that it is page %d", ErrDamaged, id, own)
	}
	further := uint64(binary.NativeEndian.Uint32(header[12:]))
	if err := p.take(id+1, further); err != nil {
		return nil, err
	}
	page := make([]byte, int(further+1)*p.pageSize)
	if _, err := p.file.ReadAt(page, int64(id)*int64(p.pageSize)); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, boltEnd(err))
	}
	return page, nil
}

// take marks n pages from id on as seen. It returns an error if one is out of range or already seen.
func (p *boltPages) take(id, n uint64) error {
	const metas = 2
	if id < metas || id > p.pages || n > p.pages-id {
		return fmt.Errorf("%w: pages %d to %d of %d", ErrDamaged, id, id+n-1, p.pages)
	}
	for ; n > 0; id, n = id+1, n-1 {
		if _, twice := p.seen[id]; twice {
			return fmt.Errorf("%w: page %d belongs to two", ErrDamaged, id)
		}
		p.seen[id] = struct{}{}
	}
	return nil
}

func (p *boltPages) elements(page []byte) error {
	flags, count := binary.NativeEndian.Uint16(page[8:]), int(binary.NativeEndian.Uint16(page[10:]))
	if flags != boltLeaf && flags != boltBranch || flags == boltBranch && count == 0 {
		return fmt.Errorf("%w: flags %#x with %d elements", ErrDamaged, flags, count)
	}
	if boltHeader+count*boltElement > len(page) {
		return fmt.Errorf("%w: %d elements", ErrDamaged, count)
	}
	var last []byte
	for i := range count {
		element := page[boltHeader+i*boltElement:]
		var key []byte
		var err error
		if flags == boltBranch {
			key, err = p.branch(element)
		} else {
			key, err = p.leaf(element)
		}
		if err == nil && (len(key) == 0 || i > 0 && bytes.Compare(last, key) >= 0) {
			err = fmt.Errorf("%w: its key is empty, or not after the one before it", ErrDamaged)
		}
		if err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		last = key
	}
	return nil
}

// branch checks an element of a branch page, with which the slice begins, and the pages below it.
func (p *boltPages) branch(element []byte) (key []byte, err error) {
	at, n := binary.NativeEndian.Uint32(element), binary.NativeEndian.Uint32(element[4:])
	if key, err = within(element, uint64(at), uint64(n)); err != nil {
		return nil, err
	}
	return key, p.tree(binary.NativeEndian.Uint64(element[8:]))
}

// leaf checks an element of a leaf page, with which the slice begins, and the bucket that it may hold.
func (p *boltPages) leaf(element []byte) (key []byte, err error) {
	flags, at := binary.NativeEndian.Uint32(element), uint64(binary.NativeEndian.Uint32(element[4:]))
	n, size := uint64(binary.NativeEndian.Uint32(element[8:])), uint64(binary.NativeEndian.Uint32(element[12:]))
	if key, err = within(element, at, n); err != nil {
		return nil, err
	}
	value, err := within(element, at+n, size)
	if err != nil {
		return nil, err
	}
	switch flags {
	case 0:
		return key, nil
	case boltIsBucket:
		return key, p.bucket(value)
	}
	return nil, fmt.Errorf("%w: flags %#x", ErrDamaged, flags)
}

func (p *boltPages) bucket(value []byte) error {
	const header = 16
	if len(value) < header {
		return fmt.Errorf("%w: a bucket of %d bytes", ErrDamaged, len(value))
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return p.tree(root)
	}
	if len(value) < header+boltHeader {
		return fmt.Errorf("%w: a bucket in place of %d bytes", ErrDamaged, len(value))
	}
	return p.elements(value[header:])
}

// free checks the free list, because bbolt may overwrite its pages.
func (p *boltPages) free(id uint64) error {
	page, err := p.read(id)
	if err != nil {
		return err
	}
	if flags := binary.NativeEndian.Uint16(page[8:]); flags != boltFreelist {
		return fmt.Errorf("%w: page %d, the free list, has the flags %#x", ErrDamaged, id, flags)
	}
	ids, count := page[boltHeader:], uint64(binary.NativeEndian.Uint16(page[10:]))
	if count == boltManyFree {
		count, ids = binary.NativeEndian.Uint64(ids), ids[boltPageID:]
	}
	if count > uint64(len(ids)/boltPageID) {
		return fmt.Errorf("%w: page %d, the free list, names %d pages", ErrDamaged, id, count)
	}
	for i := range count {
		if err := p.take(binary.NativeEndian.Uint64(ids[i*boltPageID:]), 1); err != nil {
			return fmt.Errorf("in the free list: %w", err)
		}
	}
	return nil
}

func within(b []byte, at, n uint64) ([]byte, error) {
	if at+n > uint64(len(b)) {
		return nil, fmt.Errorf("%w: %d bytes at %d of %d", ErrDamaged, n, at, len(b))
	}
	return b[at : at+n], nil
}

func boltEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the file ends before it", ErrDamaged)
	}
	return err
}
