package history

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/belfryhq/belfry/history/historypb"
	"github.com/belfryhq/belfry/history/internal/segment"
)

const suffix = ".events"

// part is a segment as readers and the keeper see it. It is never changed in place, except for live.
type part struct {
	path        string
	made        uint64 // generation; set while a shard is opened
	first, last *historypb.TimedPosition
	size        int64
	live        int64 // bytes of events above the floors; guarded by the shard's mu
	active      bool
	blocks      []*historypb.Block // of the active segment; the others have them in the file
}

// name returns the name of the segment with a first position and a generation. Names are never used twice.
func name(first Position, generation uint64) string {
	return fmt.Sprintf("%016x-%08x-%08x%s", first.Index, first.Number, generation, suffix)
}

// generation returns the generation in the name of a segment.
func generation(path string) (uint64, bool) {
	var index, number, generation uint64
	n, err := fmt.Sscanf(filepath.Base(path), "%016x-%08x-%08x"+suffix, &index, &number, &generation)
	return generation, err == nil && n == 3 && strings.HasSuffix(path, suffix)
}

func newPart(path string, c *segment.Contents) *part {
	p := &part{path: path, first: c.First, last: c.Last, size: c.Size}
	for _, u := range c.Usage {
		p.live += u.Bytes
	}
	return p
}

func (p *part) sealed() bool { return !p.active }

// contains reports whether p stands for all positions of q.
func (p *part) contains(q *part) bool {
	return p.first.Position().Compare(q.first.Position()) <= 0 && p.last.Position().Compare(q.last.Position()) >= 0
}

func byFirst(p, q *part) int {
	return cmp.Or(p.first.Position().Compare(q.first.Position()), cmp.Compare(p.path, q.path))
}

// load reads the contents of a segment, with its blocks if they are wanted. A file that another program has removed has
// no contents.
func load(path string, blocks bool) (*segment.Contents, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return &segment.Contents{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	c, err := segment.Load(f, info.Size())
	if err == nil && blocks {
		c.Blocks, err = segment.LoadBlocks(f, info.Size())
	}
	return c, err
}
