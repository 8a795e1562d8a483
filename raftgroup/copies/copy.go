package copies

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
)

// Copy is one snapshot on its way to a replica.
type Copy struct {
	group   uint32
	node    string
	size    int64
	limited bool
	meter   *Meter // nil: the copy is neither limited nor counted
	ctx     context.Context
	stale   func() error

	sent atomic.Int64
}

// Reader returns the content as the copy may send it.
func (c *Copy) Reader(content io.Reader) io.Reader { return &reader{c, content} }

// End ends the copy, whether or not all bytes have left.
func (c *Copy) End() {
	if c.meter != nil {
		c.meter.end(c)
	}
}

func (c *Copy) progress() Progress {
	return Progress{Group: c.group, Node: c.node, Size: c.size, Sent: c.sent.Load(), Limited: c.limited}
}

// reader reads the content of a copy at the copy's pace.
type reader struct {
	copy    *Copy
	content io.Reader
}

func (r *reader) Read(b []byte) (int, error) {
	c := r.copy
	if err := c.stale(); err != nil {
		return 0, fmt.Errorf("the copy to node %s ends early: %w", c.node, err)
	}
	if c.meter == nil {
		return r.content.Read(b)
	}
	n, err := r.content.Read(b[:min(len(b), c.meter.piece)])
	if c.limited && n > 0 {
		if err := c.meter.turn(c.ctx, n); err != nil {
			return 0, fmt.Errorf("the copy to node %s ends early: %w", c.node, err)
		}
	}
	c.sent.Add(int64(n))
	c.meter.counter(c.limited).Add(uint64(n))
	return n, err
}
