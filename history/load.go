package history

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/history/historypb"
	"github.com/belfryhq/belfry/history/internal/segment"
)

// openShard opens the folder of a shard, and makes it if there is none.
func openShard(store *Store, id uint32) (*Shard, error) {
	s := &Shard{
		id: id, dir: store.folder(id), store: store, log: store.cfg.Logger.With("shard", id),
		buffer: buffer{limit: store.cfg.Buffer}, usage: map[string]*namespaceUsage{},
		waiting: map[string]chan struct{}{},
	}
	if err := os.MkdirAll(s.dir, 0o750); err != nil {
		return nil, err
	}
	damaged := s.loadMark()
	if damaged != nil && !errors.Is(damaged, segment.ErrCorrupt) {
		return nil, damaged
	}
	if err := s.loadSegments(); err != nil {
		return nil, err
	}
	if damaged != nil {
		s.beginMark(damaged)
	}
	return s, s.resume()
}

// beginMark begins a mark anew after a damage. The floor is in front of the oldest segment: no reader takes events that
// may have been removed for events that never were.
func (s *Shard) beginMark(damage error) {
	s.log.Error("the mark of a shard's history is damaged and begins anew", "err", damage)
	s.store.metrics.corrupt.Inc()
	if len(s.segments) > 0 {
		s.floors.raiseAll(segment.Before(s.segments[0].first))
		s.unsaved = true
	}
}

// loadMark reads the mark. Its error is segment.ErrCorrupt if the mark is damaged, and s has no floors then.
func (s *Shard) loadMark() error {
	mark, err := readMark(s.dir)
	if err != nil && !errors.Is(err, segment.ErrCorrupt) {
		return err
	}
	s.floors, s.synced = floorsOf(mark), mark.Synced
	s.last = &historypb.TimedPosition{Index: mark.Synced, AtMs: mark.Floor.GetAtMs()}
	if mark.Synced > 0 {
		s.last.Number = endOf(mark.Synced).Number
	}
	s.reach(mark.Floor)
	return err
}

// reach moves the last position forward.
func (s *Shard) reach(p *historypb.TimedPosition) {
	if p.Position().After(s.last.Position()) {
		s.last = p
	}
}

// loadSegments reads the summaries of the folder's segments, and removes drafts and segments that were replaced.
func (s *Shard) loadSegments() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	contents := map[*part]*segment.Contents{}
	for _, e := range entries {
		path := filepath.Join(s.dir, e.Name())
		if strings.HasSuffix(path, draft) {
			err = os.Remove(path)
		} else if made, ok := generation(path); ok {
			s.made = max(s.made, made)
			err = s.loadSegment(path, contents)
		}
		if err != nil {
			return err
		}
	}
	return s.addParts(contents)
}

// loadSegment reads the contents of one segment. A segment without a whole block is removed.
func (s *Shard) loadSegment(path string, contents map[*part]*segment.Contents) error {
	c, err := load(path, false)
	if err != nil {
		return err
	}
	if c.Corrupt > 0 {
		s.log.Error("a segment of a shard's history is damaged", "path", path, "places", c.Corrupt)
		s.store.metrics.corrupt.Add(float64(c.Corrupt))
	}
	if c.First == nil || c.Last == nil {
		return os.Remove(path)
	}
	p := newPart(path, c)
	p.made, _ = generation(path)
	contents[p] = c
	return nil
}

// addParts takes over the segments, except for those that another one of a higher generation replaces.
func (s *Shard) addParts(contents map[*part]*segment.Contents) error {
	for p := range contents {
		if replaced(p, contents) {
			if err := os.Remove(p.path); err != nil {
				return err
			}
			delete(contents, p)
		}
	}
	for p, c := range contents {
		s.segments = append(s.segments, p)
		s.reach(p.last)
		p.live = s.countUsage(c)
	}
	slices.SortFunc(s.segments, byFirst)
	return nil
}

func replaced(p *part, contents map[*part]*segment.Contents) bool {
	for q := range contents {
		if q.made > p.made && q.contains(p) {
			return true
		}
	}
	return false
}

// countUsage adds the shares of a segment to the usage, and returns the bytes of those above the floors.
func (s *Shard) countUsage(c *segment.Contents) (live int64) {
	for namespace, u := range c.Usage {
		if !u.Last.Position().After(s.floors.floorOf(namespace).Position()) {
			continue
		}
		live += u.Bytes
		s.addBytes(namespace, u.Bytes, u.Last.Position())
	}
	return live
}

// resume makes the newest segment active again if it is not full.
func (s *Shard) resume() error {
	if len(s.segments) == 0 {
		return nil
	}
	i := len(s.segments) - 1
	c, err := load(s.segments[i].path, true)
	if err != nil || c.Sealed && c.Size >= s.store.cfg.segmentBytes() {
		return err
	}
	f, err := s.store.cfg.open(s.segments[i].path)
	if err != nil {
		return err
	}
	w, err := segment.Resume(f, c)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.active, s.path = w, s.segments[i].path
	live := s.segments[i].live
	now := w.Contents()
	s.segments[i] = &part{
		path: s.path, first: c.First, last: c.Last, size: now.Size, live: live,
		active: true, blocks: slices.Clip(now.Blocks),
	}
	return nil
}
