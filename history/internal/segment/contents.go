package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strings"

	"github.com/belfryhq/belfry/history/historypb"
)

// Contents describes the file of a segment.
type Contents struct {
	First, Last *historypb.TimedPosition // range of positions; nil: none
	Blocks      []*historypb.Block
	Usage       map[string]*historypb.Usage // by namespace
	Size        int64                       // of the file, without a torn end
	Sealed      bool
	Corrupt     int // damaged places that a scan found

	end       int64 // of the last block
	directory *historypb.Summary
}

// Load reads the contents of a file. A sealed segment has its Blocks only after LoadBlocks. A file without a whole
// summary is scanned. Load fails only if reading fails.
func Load(r io.ReaderAt, size int64) (*Contents, error) {
	c, err := loadSummary(r, size)
	if err == nil || !errors.Is(err, ErrCorrupt) {
		return c, err
	}
	data := make([]byte, size)
	if n, err := r.ReadAt(data, 0); err != nil && (!errors.Is(err, io.EOF) || n < len(data)) {
		return nil, err
	}
	return scan(data), nil
}

// LoadBlocks reads the blocks of a sealed segment. A damaged directory is replaced by a scan.
func LoadBlocks(r io.ReaderAt, size int64) ([]*historypb.Block, error) {
	c, err := Load(r, size)
	if err != nil || c.directory == nil {
		return c.blocks(), err
	}
	data := make([]byte, c.directory.Length)
	if _, err := r.ReadAt(data, c.directory.Directory); err != nil {
		return nil, readError("directory", c.directory.Directory, err)
	}
	directory := &historypb.Directory{}
	if crc32.Checksum(data, castagnoli) == c.directory.Sum && directory.UnmarshalVTUnsafe(data) == nil {
		return directory.Blocks, nil
	}
	whole := make([]byte, size)
	if _, err := r.ReadAt(whole, 0); err != nil {
		return nil, readError("segment", 0, err)
	}
	return scan(whole[:c.directory.Directory]).Blocks, nil
}

func (c *Contents) blocks() []*historypb.Block {
	if c == nil {
		return nil
	}
	return c.Blocks
}

// loadSummary reads the summary at the end of a file.
func loadSummary(r io.ReaderAt, size int64) (*Contents, error) {
	trailer := make([]byte, trailerSize)
	if size < trailerSize+int64(len(header)) {
		return nil, fmt.Errorf("%w: a file of %d bytes", ErrCorrupt, size)
	}
	if _, err := r.ReadAt(trailer, size-trailerSize); err != nil {
		return nil, readError("trailer", size-trailerSize, err)
	}
	length := int64(binary.LittleEndian.Uint32(trailer))
	if string(trailer[8:]) != endMagic || length > size-trailerSize {
		return nil, fmt.Errorf("%w: the trailer", ErrCorrupt)
	}
	data := make([]byte, length)
	if _, err := r.ReadAt(data, size-trailerSize-length); err != nil {
		return nil, readError("summary", size-trailerSize-length, err)
	}
	return parseSummary(data, binary.LittleEndian.Uint32(trailer[4:]), size)
}

func parseSummary(data []byte, sum uint32, size int64) (*Contents, error) {
	s := &historypb.Summary{}
	if crc32.Checksum(data, castagnoli) != sum || s.UnmarshalVTUnsafe(data) != nil {
		return nil, fmt.Errorf("%w: the summary", ErrCorrupt)
	}
	if s.Directory < 0 || s.Length < 0 || s.Directory > size || s.Length > size-s.Directory {
		return nil, fmt.Errorf("%w: the place of the directory", ErrCorrupt)
	}
	c := &Contents{First: s.First, Last: s.Last, Size: size, Sealed: true, end: s.Directory, directory: s}
	c.Usage = make(map[string]*historypb.Usage, len(s.Usage))
	for _, u := range s.Usage {
		c.Usage[u.Namespace] = u
	}
	return c, nil
}

// scan returns the contents of the blocks in data.
func scan(data []byte) *Contents {
	c := &Contents{Usage: map[string]*historypb.Usage{}}
	at := min(len(header), len(data))
	c.end = int64(at)
	if string(data[:at]) != header {
		c.end = 0
	}
	for damaged := false; ; {
		b, next, ok := parseFrame(data, at)
		if ok {
			c.found(b, data, damaged)
			at, damaged, c.end = next, false, int64(next)
			continue
		}
		if at, ok = nextFrame(data, at); !ok {
			break
		}
		damaged = true
	}
	c.Size = c.end
	return c
}

// found adds a block that a scan met, after a gap for the damage before it. Blocks out of order are passed over.
func (c *Contents) found(b *historypb.Block, data []byte, damaged bool) {
	if b.First == nil || b.Last == nil || b.First.Position().After(b.Last.Position()) ||
		c.Last != nil && !b.First.Position().After(c.Last.Position()) {
		c.Corrupt++
		return
	}
	if damaged {
		c.Corrupt++
		c.lost(Before(b.First))
	}
	events, err := unpackIn(data, b)
	if err != nil {
		c.Corrupt++
		c.add(&historypb.Block{First: b.First, Last: b.Last})
		return
	}
	c.add(b)
	u := usage{byNamespace: map[string]*historypb.Usage{}}
	for _, e := range events {
		u.add(e, e.SizeVT())
	}
	c.count(b, u)
}

// lost adds a gap that ends at a position. Its start is not known if no block comes before it.
func (c *Contents) lost(last *historypb.TimedPosition) {
	first := last
	if c.Last != nil {
		first = After(c.Last)
	}
	if !first.Position().After(last.Position()) {
		c.add(&historypb.Block{First: first, Last: last})
	}
}

func unpackIn(data []byte, b *historypb.Block) ([]*historypb.Event, error) {
	if b.Count == 0 {
		return nil, nil
	}
	return unpack(b, data[b.Offset:b.Offset+int64(b.Body)])
}

// After returns the position behind p, at the same instant.
func After(p *historypb.TimedPosition) *historypb.TimedPosition {
	p = p.CloneVT()
	if p.Number++; p.Number == 0 {
		p.Index++
	}
	return p
}

// Before returns the position in front of p, at the same instant.
func Before(p *historypb.TimedPosition) *historypb.TimedPosition {
	p = p.CloneVT()
	if p.Number == 0 && p.Index > 0 {
		p.Index--
		p.Number = math.MaxUint32
	} else if p.Number > 0 {
		p.Number--
	}
	return p
}

func (c *Contents) add(b *historypb.Block) {
	c.Blocks = append(c.Blocks, b)
	c.cover(b.First, b.Last)
}

func (c *Contents) cover(first, last *historypb.TimedPosition) {
	if c.First == nil || c.First.Position().After(first.Position()) {
		c.First = first
	}
	if c.Last == nil || last.Position().After(c.Last.Position()) {
		c.Last = last
	}
}

// count divides the bytes of a block among the namespaces of its events, and returns the shares.
func (c *Contents) count(b *historypb.Block, of usage) map[string]int64 {
	stored, shares := int64(b.Body)+int64(len(b.Filter))+frameHeader, make(map[string]int64, len(of.byNamespace))
	whole := int64(0)
	for _, part := range of.byNamespace {
		whole += part.Bytes
	}
	for namespace, part := range of.byNamespace {
		shares[namespace] = max(1, stored*part.Bytes/whole)
		u := c.Usage[namespace]
		if u == nil {
			u = &historypb.Usage{Namespace: strings.Clone(namespace), First: part.First} // not with its block's memory
			c.Usage[u.Namespace] = u
		}
		u.Bytes += shares[namespace]
		u.Last = part.Last
	}
	return shares
}
