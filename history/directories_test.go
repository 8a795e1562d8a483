package history

import (
	"io"
	"os"
	"sync/atomic"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// countingReader counts the reads of a file.
type countingReader struct {
	io.ReaderAt
	reads atomic.Int64
}

func (r *countingReader) ReadAt(p []byte, at int64) (int, error) {
	r.reads.Add(1)
	return r.ReaderAt.ReadAt(p, at)
}

// TestDirectories checks that the directory of a segment is read once, that directories stay within their memory, and
// that those of removed segments are forgotten.
func TestDirectories(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Bytes = 32 * minSegment })
	sh := w.shard(1)
	const last, step = 8000, 500
	for i := uint64(0); i < last; i += step {
		appendNoisy(sh, i+1, i+step, "a")
		w.sync(sh, i+step)
	}
	sh.mu.Lock()
	segments := sh.segments[:len(sh.segments)-1] // the last one is active
	sh.mu.Unlock()
	if len(segments) < 4 {
		t.Fatalf("%d sealed segments", len(segments))
	}
	blocksOf := func(d *directories, p *part) (reads int64) {
		f, err := os.Open(p.path)
		assert.NoError(t, err)
		defer f.Close()
		r := &countingReader{ReaderAt: f}
		if blocks, err := d.blocks(p, r); err != nil || len(blocks) == 0 {
			t.Fatalf("%d blocks, error %v", len(blocks), err)
		}
		return r.reads.Load()
	}
	d := newDirectories(1 << 20)
	if first, second := blocksOf(d, segments[0]), blocksOf(d, segments[0]); first == 0 || second != 0 {
		t.Errorf("%d reads, and %d the second time", first, second)
	}
	room := newDirectories(2*d.bytes + d.bytes/2)
	for range 3 {
		for _, p := range segments {
			blocksOf(room, p)
			if room.bytes > room.most {
				t.Fatalf("%d bytes are held, more than %d", room.bytes, room.most)
			}
		}
	}
	w.wantIndexes(1, "a", 1, last)
	held := w.store.directories
	if len(held.held) != len(segments) {
		t.Errorf("after reading all, %d directories of %d are held", len(held.held), len(segments))
	}
	assert.NoError(t, sh.removeOldest(segments[0]))
	if _, ok := held.held[segments[0]]; ok || len(held.held) != len(segments)-1 {
		t.Errorf("after the removal of one segment, %d directories are held", len(held.held))
	}
	for _, p := range segments {
		held.forget(p)
	}
	if held.bytes != 0 {
		t.Errorf("without directories, %d bytes are held", held.bytes)
	}
}
