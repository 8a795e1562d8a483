package history

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/belfryhq/belfry/history/historypb"
	"github.com/belfryhq/belfry/history/internal/segment"
)

// view is the state of a shard for one reader of a namespace.
type view struct {
	parts  []*part
	chunks []chunk
	floor  *historypb.TimedPosition // of the reader's namespace
	last   Position
}

func (s *Shard) view(namespace string) (view, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return view{}, ErrClosed
	}
	return view{s.segments, s.buffer.view(), s.floors.floorOf(namespace), s.last.Position()}, nil
}

// has reports whether the segment is still one of the shard.
func (s *Shard) has(p *part) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.segments, func(q *part) bool { return q.path == p.path })
}

// walk reads events of one namespace after a position, oldest first. It is for one use.
type walk struct {
	shard     *Shard
	namespace string
	keys      []segment.Key // a block is read if its filter has all of them
	blocks    int           // to be read at most; negative: any number
	strict    bool          // fail if events after at are gone, instead of passing over them
	since     time.Time     // segments and blocks that end before are skipped, and their gaps too

	at    Position // up to which the walk has read
	event func(*Event) bool
	gaps  []Gap
}

// errStopped ends a walk before the end of the shard.
var errStopped = errors.New("history: stopped")

// run reads to the end of the shard. It returns errStopped if the event function returned false, or if no more blocks
// may be read. Segments may be replaced meanwhile: the walk then goes on from where it is.
func (w *walk) run(ctx context.Context) error {
	for {
		v, err := w.shard.view(w.namespace)
		if err != nil {
			return err
		}
		if err := w.pass(v.floor); err != nil {
			return err
		}
		if err = w.parts(ctx, v.parts); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = w.chunks(v.chunks)
		}
		if err == nil {
			w.raise(v.last)
		}
		return err
	}
}

// pass passes over the events that are gone, or returns a *GoneError.
func (w *walk) pass(floor *historypb.TimedPosition) error {
	if w.strict && floor.Position().After(w.at) {
		return &GoneError{After: floor.Position(), Since: instant(floor.AtMs)}
	}
	w.raise(floor.Position())
	return nil
}

func (w *walk) raise(p Position) {
	if p.After(w.at) {
		w.at = p
	}
}

func (w *walk) parts(ctx context.Context, parts []*part) error {
	for _, p := range parts {
		if w.skips(p.last) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.part(ctx, p); err != nil {
			return err
		}
		w.raise(p.last.Position())
	}
	return nil
}

// skips reports whether the walk need not read events up to a position, and passes over them.
func (w *walk) skips(last *historypb.TimedPosition) bool {
	if instant(last.AtMs).Before(w.since) {
		w.raise(last.Position())
	}
	return !last.Position().After(w.at)
}

func (w *walk) part(ctx context.Context, p *part) (err error) {
	f, err := os.Open(p.path)
	if err != nil {
		return w.missing(err, p)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	blocks := p.blocks
	if p.sealed() {
		if blocks, err = w.shard.store.directories.blocks(p, f); err != nil {
			return w.unreadable(err, p.first, p.last)
		}
	}
	return w.walkBlocks(ctx, f, blocks)
}

// missing makes a gap of a segment whose file was removed by another program.
func (w *walk) missing(err error, p *part) error {
	if errors.Is(err, os.ErrNotExist) && w.shard.has(p) {
		err = fmt.Errorf("%w: %w", segment.ErrCorrupt, err)
	}
	return w.unreadable(err, p.first, p.last)
}

func (w *walk) walkBlocks(ctx context.Context, f *os.File, blocks []*historypb.Block) error {
	for _, b := range blocks {
		if w.skips(b.Last) {
			continue
		}
		if err := errors.Join(ctx.Err(), w.block(f, b)); err != nil {
			return err
		}
		w.raise(b.Last.Position())
	}
	return nil
}

func (w *walk) block(f *os.File, b *historypb.Block) error {
	if b.Count == 0 {
		w.miss(b.First.Position(), b.Last.Position())
		return nil
	}
	if !w.wants(b.Filter) {
		return nil
	}
	if w.blocks == 0 {
		return errStopped
	}
	w.blocks--
	events, err := segment.Read(f, b)
	if err != nil {
		return w.unreadable(err, b.First, b.Last)
	}
	for _, e := range events {
		if err := w.visit(e); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) wants(filter []byte) bool {
	for _, k := range w.keys {
		if !k.In(filter) {
			return false
		}
	}
	return true
}

// unreadable makes a gap of a damaged range, and returns all other errors.
func (w *walk) unreadable(err error, first, last *historypb.TimedPosition) error {
	if !errors.Is(err, segment.ErrCorrupt) {
		return err
	}
	w.shard.store.metrics.corrupt.Inc()
	w.shard.log.Error("events are unreadable", "first", first.Position(), "last", last.Position(), "err", err)
	w.miss(first.Position(), last.Position())
	return nil
}

// miss notes a gap, less the part that the walk has passed.
func (w *walk) miss(first, last Position) {
	if !last.After(w.at) {
		return
	}
	if !first.After(w.at) {
		first = Position{Index: w.at.Index, Number: w.at.Number + 1}
		if first.Number == 0 {
			first.Index++
		}
	}
	w.gaps = append(w.gaps, Gap{first, last})
	w.raise(last)
}

func (w *walk) visit(e *Event) error {
	if !e.Position().After(w.at) {
		return nil
	}
	if e.Namespace == w.namespace && !w.event(e) {
		return errStopped
	}
	w.at = e.Position()
	return nil
}

func (w *walk) chunks(chunks []chunk) error {
	for _, c := range chunks {
		if c.gap != nil {
			w.miss(c.gap.First.Position(), c.gap.Last.Position())
		} else if err := w.waiting(c.events); err != nil {
			return err
		}
	}
	return nil
}

// waiting reads events that wait for the disk.
func (w *walk) waiting(b *segment.Batch) error {
	if !b.Last().After(w.at) {
		return nil
	}
	if !slices.ContainsFunc(w.keys, func(k segment.Key) bool { return !b.Has(k) }) {
		events, err := b.After(w.at)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := w.visit(e); err != nil {
				return err
			}
		}
	}
	w.raise(b.Last())
	return nil
}
