package history

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/belfryhq/belfry/history/historypb"
	"github.com/belfryhq/belfry/history/internal/segment"
)

// rewriteSparse rewrites the segments of which less than half is alive.
func (s *Store) rewriteSparse(shards []*Shard) error {
	for _, sh := range shards {
		for run := sh.sparse(); len(run) > 0; run = sh.sparse() {
			if err := sh.rewrite(run, none); err != nil {
				return err
			}
		}
	}
	return nil
}

// sparse returns the first sealed segment of which less than half is alive, with the sparse ones after it that fit into
// one segment together.
func (s *Shard) sparse() []*part {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := slices.IndexFunc(s.segments, isSparse)
	if s.closed || first < 0 {
		return nil
	}
	end, live := first, int64(0)
	for end < len(s.segments) && isSparse(s.segments[end]) {
		if live += s.segments[end].live; end > first && live > s.store.cfg.segmentBytes() {
			break
		}
		end++
	}
	return slices.Clone(s.segments[first:end])
}

// isSparse reports whether rewriting p gains half of its size, and enough to be worth a file.
func isSparse(p *part) bool { return p.sealed() && p.live < p.size/2 && p.size-p.live >= minSegment }

// erase removes the events of a namespace from memory and from all segments.
func (s *Shard) erase(namespace string) error {
	if err := s.forget(namespace); err != nil {
		return err
	}
	v, err := s.view(namespace)
	if errors.Is(err, ErrClosed) {
		return nil
	}
	for _, p := range v.parts {
		if !p.sealed() {
			continue // made since forget, without the namespace's earlier events
		}
		c, err := load(p.path, false)
		if err == nil && c.Usage[namespace] != nil {
			err = s.rewrite([]*part{p}, func(other string) bool { return other == namespace })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forget removes a namespace from the buffer and the mark, and seals the active segment if that has events of it.
func (s *Shard) forget(namespace string) error {
	s.disk.Lock()
	defer s.disk.Unlock()
	if s.isClosed() {
		return nil
	}
	f, synced := s.floorsNow()
	if f.namespaces[namespace] != nil {
		delete(f.namespaces, namespace)
		if err := s.saveMark(f, synced); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.floors = f
	err := s.buffer.remove(namespace)
	delete(s.usage, namespace)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if s.active == nil || s.active.Contents().Usage[namespace] == nil {
		return nil
	}
	return s.result(s.seal())
}

func none(string) bool { return false }

// rewrite replaces adjacent sealed segments by one with the events above the floors, without erased namespaces.
func (s *Shard) rewrite(run []*part, erased func(namespace string) bool) error {
	s.disk.Lock()
	defer s.disk.Unlock()
	if s.isClosed() {
		return nil
	}
	s.made++
	path := filepath.Join(s.dir, name(run[0].first.Position(), s.made))
	before, err := s.alive(run)
	if err != nil {
		return err
	}
	c, err := s.copy(path, run, erased)
	if err != nil {
		return err
	}
	s.recount(before, c.Usage)
	return s.replace(run, newPart(path, c))
}

// alive returns the bytes of each namespace above its floor in some segments.
func (s *Shard) alive(run []*part) (map[string]int64, error) {
	f, _ := s.floorsNow()
	bytes := map[string]int64{}
	for _, p := range run {
		c, err := load(p.path, false)
		if err != nil {
			return nil, err
		}
		for namespace, u := range c.Usage {
			if u.Last.Position().After(f.floorOf(namespace).Position()) {
				bytes[namespace] += u.Bytes
			}
		}
	}
	return bytes, nil
}

// recount corrects the usage: the events take other shares of bytes in their new blocks.
func (s *Shard) recount(before map[string]int64, after map[string]*historypb.Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace, bytes := range before {
		if u := s.usage[namespace]; u != nil {
			u.bytes += after[namespace].GetBytes() - bytes
		}
	}
}

// copy writes the events of the segments into a new file. disk is held.
func (s *Shard) copy(path string, run []*part, erased func(string) bool) (*segment.Contents, error) {
	w, err := s.create(path + draft)
	if err != nil {
		return nil, err
	}
	f, _ := s.floorsNow()
	cp := &copier{to: w, floors: f, erased: erased}
	for _, p := range run {
		err = errors.Join(err, cp.part(p))
	}
	w.Cover(run[0].first, run[len(run)-1].last)
	if err = errors.Join(err, cp.flush()); err == nil {
		err = w.Seal()
	}
	if err = errors.Join(err, w.Close()); err == nil {
		err = os.Rename(path+draft, path)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(path+draft))
	}
	c := w.Contents()
	return &c, syncDir(s.dir)
}

// replace puts a segment in the place of others, and removes their files.
func (s *Shard) replace(run []*part, by *part) error {
	s.mu.Lock()
	i := slices.IndexFunc(s.segments, func(p *part) bool { return p.path == run[0].path })
	s.segments = slices.Replace(slices.Clone(s.segments), i, i+len(run), by)
	s.mu.Unlock()
	for _, p := range run {
		if err := s.unlink(p); err != nil {
			return err
		}
	}
	return nil
}

// copier copies the events that stay into one segment.
type copier struct {
	to     *segment.Writer
	floors floors
	erased func(namespace string) bool

	events segment.Batch
}

func (c *copier) part(p *part) (err error) {
	f, err := os.Open(p.path)
	if errors.Is(err, os.ErrNotExist) { // removed by another program
		return errors.Join(c.flush(), c.to.Gap(p.first, p.last))
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	blocks, err := segment.LoadBlocks(f, p.size)
	if err != nil {
		return err
	}
	for _, b := range blocks {
		if err := c.block(f, b); err != nil {
			return err
		}
	}
	return nil
}

// block copies one block. An unreadable one becomes a gap.
func (c *copier) block(f *os.File, b *historypb.Block) error {
	events, err := segment.Read(f, b)
	if b.Count == 0 || errors.Is(err, segment.ErrCorrupt) {
		if err := c.flush(); err != nil {
			return err
		}
		return c.to.Gap(b.First, b.Last)
	}
	if err != nil {
		return err
	}
	for _, e := range events {
		if err := c.event(e); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) event(e *Event) error {
	if c.erased(e.Namespace) || !e.Position().After(c.floors.floorOf(e.Namespace).Position()) {
		return nil
	}
	if c.events.Add(e); c.events.Raw() < blockBytes {
		return nil
	}
	return c.flush()
}

func (c *copier) flush() error {
	if c.events.Len() == 0 {
		return nil
	}
	_, err := c.to.Append(&c.events)
	c.events = segment.Batch{}
	return err
}
