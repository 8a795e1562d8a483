package copies

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// MinRate is the smallest limit in bytes a second. A smaller one would let a copy take days.
const MinRate = 64 << 10

// The sizes of the pieces in which a limited copy leaves. The smaller the limit, the smaller the pieces.
const (
	minPiece = 4 << 10
	maxPiece = 64 << 10
	pieces   = 16 // a second, if the sizes allow it
)

// Meter limits and counts the copies that a node sends. Its methods are safe for concurrent use.
type Meter struct {
	perSecond int64 // 0: no limit
	piece     int
	first     chan struct{} // held by the first piece in line
	until     time.Time     // when the limit has let through all pieces so far; for the holder of first

	limited atomic.Uint64 // bytes of copies to replicas without a vote
	free    atomic.Uint64 // bytes of copies to voters
	paced   atomic.Uint64

	mu       sync.Mutex
	underWay map[*Copy]bool
}

// NewMeter returns a Meter for limited copies of the given bytes a second together; 0: no limit.
func NewMeter(perSecond int64) *Meter {
	m := &Meter{perSecond: perSecond, piece: maxPiece, first: make(chan struct{}, 1), underWay: make(map[*Copy]bool)}
	if perSecond > 0 {
		m.piece = int(min(max(perSecond/pieces, minPiece), maxPiece))
	}
	return m
}

// Sent returns the bytes since the start of the copies that are limited, or of those that are not.
func (m *Meter) Sent(limited bool) uint64 { return m.counter(limited).Load() }

func (m *Meter) counter(limited bool) *atomic.Uint64 {
	if limited {
		return &m.limited
	}
	return &m.free
}

// Paced returns the bytes that Pace has let through since the start.
func (m *Meter) Paced() uint64 { return m.paced.Load() }

// Pace waits for the turn of n bytes that another way carries, under the limit of the copies. If ctx ends first, it
// returns its error, and the number of bytes whose turn has not come.
func (m *Meter) Pace(ctx context.Context, n int) (left int, err error) {
	for n > 0 {
		piece := min(n, m.piece)
		if err := m.turn(ctx, piece); err != nil {
			return n, err
		}
		m.paced.Add(uint64(piece))
		n -= piece
	}
	return 0, nil
}

// turn waits until n bytes may pass, a piece at most. The pieces of all callers stand in one line. A piece whose ctx
// ends there takes nothing of the limit, so that callers with little time do not waste it.
func (m *Meter) turn(ctx context.Context, n int) error {
	if m.perSecond <= 0 {
		return ctx.Err()
	}
	select {
	case m.first <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-m.first }()
	until := m.until
	if idle := time.Now().Add(-m.lasts(m.piece)); until.Before(idle) {
		until = idle
	}
	until = until.Add(m.lasts(n))
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		m.until = until
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lasts returns the time in which the limit lets n bytes through, rounded up.
func (m *Meter) lasts(n int) time.Duration {
	return time.Duration((int64(n)*int64(time.Second) + m.perSecond - 1) / m.perSecond)
}

// Progress describes a copy under way.
type Progress struct {
	Group   uint32 // number of the group
	Node    string // id of the receiver
	Size    int64  // bytes of the snapshot
	Sent    int64  // bytes that have left
	Limited bool   // the limit applies
}

// Source begins the copies of one group. The zero Source neither limits nor counts them.
type Source struct {
	meter *Meter
	group uint32
}

// Of returns the source of a group's copies. A nil Meter returns the zero Source.
func (m *Meter) Of(group uint32) Source { return Source{m, group} }

// UnderWay returns the copies under way, by group and node.
func (m *Meter) UnderWay() []Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Progress, 0, len(m.underWay))
	for c := range m.underWay {
		all = append(all, c.progress())
	}
	slices.SortFunc(all, func(a, b Progress) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Node, b.Node))
	})
	return all
}

// Begin begins a copy of the given size to a node, which is under way until its End. The copy fails as soon as stale,
// called before each piece, returns an error, and when ctx ends.
func (s Source) Begin(ctx context.Context, node string, size int64, limited bool, stale func() error) *Copy {
	c := &Copy{
		group: s.group, node: node, size: size, limited: limited, meter: s.meter, ctx: ctx, stale: stale,
	}
	if m := s.meter; m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.underWay[c] = true
	}
	return c
}

func (m *Meter) end(c *Copy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.underWay, c)
}
