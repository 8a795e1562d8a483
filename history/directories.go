package history

import (
	"io"
	"sync"

	"github.com/belfryhq/belfry/history/historypb"
	"github.com/belfryhq/belfry/history/internal/segment"
)

// directoryBytes is the memory for directories of sealed segments. It is enough for some 15 million events.
const directoryBytes = 32 << 20

// headBytes is the memory of a block's head beside its filter.
const headBytes = 256

// directories holds directories of sealed segments that have been read, because the next reader wants the same ones: a
// page that shows a task asks for its events every few seconds. A segment's directory goes by chance when there is no
// room. Readers pass over the segments in order, so the oldest one would always go just before it is wanted again.
type directories struct {
	most int64

	mu    sync.Mutex
	held  map[*part][]*historypb.Block
	bytes int64
}

func newDirectories(most int64) *directories {
	return &directories{most: most, held: map[*part][]*historypb.Block{}}
}

// blocks returns the blocks of a sealed segment, whose file is r.
func (d *directories) blocks(p *part, r io.ReaderAt) ([]*historypb.Block, error) {
	d.mu.Lock()
	blocks, ok := d.held[p]
	d.mu.Unlock()
	if ok {
		return blocks, nil
	}
	blocks, err := segment.LoadBlocks(r, p.size)
	if err != nil {
		return nil, err
	}
	d.hold(p, blocks)
	return blocks, nil
}

func (d *directories) hold(p *part, blocks []*historypb.Block) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.held[p]; ok {
		return
	}
	d.held[p] = blocks
	d.bytes += sizeOf(blocks)
	for q, blocks := range d.held { // in an order of chance
		if d.bytes <= d.most {
			return
		}
		delete(d.held, q)
		d.bytes -= sizeOf(blocks)
	}
}

// forget drops the directory of a segment that is no longer one of its shard.
func (d *directories) forget(p *part) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bytes -= sizeOf(d.held[p])
	delete(d.held, p)
}

func sizeOf(blocks []*historypb.Block) int64 {
	n := int64(0)
	for _, b := range blocks {
		n += int64(len(b.Filter)) + headBytes
	}
	return n
}
