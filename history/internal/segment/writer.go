package segment

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"maps"
	"slices"

	"github.com/belfryhq/belfry/history/historypb"
)

// File is the open file of a segment.
type File interface {
	io.WriterAt
	io.Closer
	Sync() error
	Truncate(size int64) error
}

// Writer appends blocks to one file. After an error the next call writes over the bytes of the failed one. It is not
// safe for concurrent use.
type Writer struct {
	file     File
	contents Contents
	torn     bool   // bytes of a failed write may follow the last block
	body     []byte // of a block; reused
}

// Create begins a segment in an empty file.
func Create(f File) (*Writer, error) {
	if _, err := f.WriteAt([]byte(header), 0); err != nil {
		return nil, err
	}
	size := int64(len(header))
	return &Writer{file: f, contents: Contents{Usage: map[string]*historypb.Usage{}, Size: size, end: size}}, nil
}

// Resume goes on with a file that has the contents. It removes the bytes behind the last block.
func Resume(f File, c *Contents) (*Writer, error) {
	if err := f.Truncate(c.end); err != nil {
		return nil, err
	}
	if c.end < int64(len(header)) {
		return Create(f)
	}
	resumed := *c
	resumed.directory = nil
	resumed.Size, resumed.Sealed = c.end, false
	return &Writer{file: f, contents: resumed}, nil
}

// Contents returns the contents of the file. The caller may keep its blocks, but not its usage.
func (w *Writer) Contents() Contents { return w.contents }

// Append writes a batch, of one event at least, as one block. It returns the bytes of each namespace. No event may be
// added to the batch afterwards.
func (w *Writer) Append(batch *Batch) (map[string]int64, error) {
	b, body, err := pack(batch, w.body)
	if err != nil {
		return nil, err
	}
	w.body = body
	if err := w.write(b, body); err != nil {
		return nil, err
	}
	return w.contents.count(b, batch.usage), nil
}

// Gap records that the events from first to last are missing.
func (w *Writer) Gap(first, last *historypb.TimedPosition) error {
	return w.write(&historypb.Block{First: first, Last: last}, nil)
}

func (w *Writer) write(b *historypb.Block, body []byte) error {
	data, offset, err := frame(b, body)
	if err != nil {
		return err
	}
	at := w.contents.end
	if err := w.put(data); err != nil {
		return err
	}
	b.Offset = at + int64(offset)
	w.contents.add(b)
	w.contents.end = at + int64(len(data))
	w.contents.Size = w.contents.end
	return nil
}

// put writes behind the last block, after the remains of a failed write are removed.
func (w *Writer) put(data []byte) error {
	if w.torn {
		if err := w.file.Truncate(w.contents.end); err != nil {
			return err
		}
	}
	w.torn = true
	if _, err := w.file.WriteAt(data, w.contents.end); err != nil {
		return err
	}
	w.torn = false
	return nil
}

// Cover makes the range of the segment include the places, although it may have no events there.
func (w *Writer) Cover(first, last *historypb.TimedPosition) { w.contents.cover(first, last) }

// Sync makes the blocks durable.
func (w *Writer) Sync() error { return w.file.Sync() }

// Seal ends the file with its directory and summary, and makes it durable. A later Append removes them again.
func (w *Writer) Seal() error {
	end, err := w.ending()
	if err != nil {
		return err
	}
	if err := w.put(end); err != nil {
		return err
	}
	w.torn = true
	if err := w.file.Sync(); err != nil {
		return err
	}
	w.contents.Size, w.contents.Sealed = w.contents.end+int64(len(end)), true
	return nil
}

// Close closes the file without a sync.
func (w *Writer) Close() error { return w.file.Close() }

// ending returns the directory, summary and trailer.
func (w *Writer) ending() ([]byte, error) {
	c := &w.contents
	directory, err := (&historypb.Directory{Blocks: c.Blocks}).MarshalVT()
	if err != nil {
		return nil, err
	}
	summary, err := (&historypb.Summary{
		First: c.First, Last: c.Last, Usage: c.ordered(),
		Directory: c.end, Length: int64(len(directory)), Sum: crc32.Checksum(directory, castagnoli),
	}).MarshalVT()
	if err != nil {
		return nil, err
	}
	end := slices.Concat(directory, summary)
	end = binary.LittleEndian.AppendUint32(end, uint32(len(summary)))
	end = binary.LittleEndian.AppendUint32(end, crc32.Checksum(summary, castagnoli))
	return append(end, endMagic...), nil
}

func (c *Contents) ordered() []*historypb.Usage {
	usage := make([]*historypb.Usage, 0, len(c.Usage))
	for _, namespace := range slices.Sorted(maps.Keys(c.Usage)) {
		usage = append(usage, c.Usage[namespace])
	}
	return usage
}
