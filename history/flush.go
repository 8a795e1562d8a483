package history

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/belfryhq/belfry/history/internal/segment"
)

// flush writes blocks while the buffer meets the condition. It returns the error of the first write that fails.
func (s *Shard) flush(while func(*buffer) bool) error {
	s.disk.Lock()
	defer s.disk.Unlock()
	for {
		c := s.next(while)
		if c == nil {
			return nil
		}
		if err := s.result(s.writeBlock(c)); err != nil {
			return err
		}
	}
}

// all is the condition of a flush that empties the buffer.
func all(b *buffer) bool {
	b.close()
	return len(b.chunks) > 0
}

func (s *Shard) next(while func(*buffer) bool) *chunk {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !while(&s.buffer) {
		return nil
	}
	return s.buffer.next()
}

// writeBlock writes the oldest chunk of the buffer as one block, and seals a segment that is full. disk is held.
func (s *Shard) writeBlock(c *chunk) error {
	if err := s.begin(c.first()); err != nil {
		return err
	}
	shares, err := s.put(c)
	if err != nil {
		return err
	}
	s.durable = false
	s.wrote(shares)
	if s.active.Contents().Size < s.store.cfg.segmentBytes() {
		return nil
	}
	return s.seal()
}

func (s *Shard) put(c *chunk) (map[string]int64, error) {
	if c.gap != nil {
		return nil, s.active.Gap(c.gap.First, c.gap.Last)
	}
	shares, err := s.active.Append(c.events)
	if err == nil {
		s.store.metrics.written.Add(float64(c.events.Len()))
	}
	return shares, err
}

// begin makes an active segment for the blocks from a position on if there is none. disk is held.
func (s *Shard) begin(first Position) error {
	if s.active != nil {
		return nil
	}
	path := filepath.Join(s.dir, name(first, s.made+1))
	w, err := s.create(path)
	if err != nil {
		return err
	}
	s.made++
	s.active, s.path, s.durable = w, path, false
	return nil
}

func (c *chunk) first() Position {
	if c.gap != nil {
		return c.gap.First.Position()
	}
	return c.events.First().Position()
}

func (s *Shard) create(path string) (*segment.Writer, error) {
	f, err := s.store.cfg.open(path)
	if err != nil {
		return nil, err
	}
	w, err := segment.Create(f)
	if err == nil {
		err = syncDir(s.dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return w, nil
}

// wrote moves the oldest chunk from the buffer to the active segment, as readers see them.
func (s *Shard) wrote(shares map[string]int64) {
	c := s.active.Contents()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buffer.pop()
	p := &part{path: s.path, first: c.First, last: c.Last, size: c.Size}
	p.active, p.blocks = true, slices.Clip(c.Blocks)
	s.segments = slices.Clone(s.segments)
	if i := len(s.segments) - 1; i >= 0 && s.segments[i].path == s.path {
		p.live, s.segments[i] = s.segments[i].live, p
	} else {
		s.segments = append(s.segments, p)
	}
	for namespace, bytes := range shares {
		p.live += bytes
		s.addBytes(namespace, bytes, c.Usage[namespace].Last.Position())
	}
}

// seal ends the active segment, if there is one. disk is held.
func (s *Shard) seal() error {
	if s.active == nil {
		return nil
	}
	if err := s.active.Seal(); err != nil {
		return err
	}
	c := s.active.Contents()
	err := s.active.Close()
	s.active = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	i := len(s.segments) - 1
	s.segments = slices.Clone(s.segments)
	s.segments[i] = &part{path: s.path, first: c.First, last: c.Last, size: c.Size, live: s.segments[i].live}
	signal(s.store.sealed)
	return err
}

// result counts an error of the disk, logs the first of consecutive ones, and returns it. disk is held.
func (s *Shard) result(err error) error {
	switch {
	case err != nil && !s.failing:
		s.log.Error("history cannot be written; events wait in memory", "err", err)
	case err == nil && s.failing:
		s.log.Info("history is written again")
	}
	s.failing = err != nil
	if err != nil {
		s.store.metrics.errors.Inc()
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
