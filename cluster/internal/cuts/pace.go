package cuts

import (
	"context"
	"io"
	"time"

	"github.com/belfryhq/belfry/cluster/internal/pause"
)

// pieceBytes is the longest piece of one write at a rate.
const pieceBytes = 64 << 10

// paced writes no faster than a rate, in pieces of a second at most, until ctx ends.
type paced struct {
	ctx     context.Context
	w       io.Writer
	rate    int64 // bytes a second
	began   time.Time
	written int64
}

// atRate returns a writer that writes to w no faster than rate bytes a second; 0: w itself.
func atRate(ctx context.Context, w io.Writer, rate int64) io.Writer {
	if rate == 0 {
		return w
	}
	return &paced{ctx: ctx, w: w, rate: rate, began: time.Now()}
}

func (p *paced) Write(b []byte) (n int, err error) {
	size := int(min(pieceBytes, p.rate))
	for n < len(b) && err == nil {
		if err = p.wait(); err != nil {
			break
		}
		var m int
		m, err = p.w.Write(b[n:min(len(b), n+size)])
		n += m
		p.written += int64(m)
	}
	return n, err
}

// wait waits until the bytes so far are within the rate.
func (p *paced) wait() error {
	due := p.began.Add(time.Duration(float64(p.written) / float64(p.rate) * float64(time.Second)))
	return pause.For(p.ctx, time.Until(due))
}
