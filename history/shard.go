package history

import (
	"errors"
	"iter"
	"log/slog"
	"os"
	"sync"

	"github.com/belfryhq/belfry/history/historypb"
	"github.com/belfryhq/belfry/history/internal/segment"
)

// Shard keeps the events of one replica. It is safe for concurrent use.
type Shard struct {
	id    uint32
	dir   string
	store *Store
	log   *slog.Logger

	disk    sync.Mutex      // guards the files of the folder and the fields up to mu; taken before mu
	active  *segment.Writer // nil: none
	path    string          // of the active segment
	made    uint64          // generation of the newest segment
	durable bool            // the active segment has no unsynced block
	unsaved bool            // the mark on disk has older floors
	failing bool            // the last write failed

	mu       sync.Mutex // held briefly, never during a read or write of a file
	closed   bool
	buffer   buffer
	segments []*part // oldest first; the active one is last
	last     *historypb.TimedPosition
	floors   floors
	synced   uint64                     // index of the last Sync that the mark has
	usage    map[string]*namespaceUsage // of namespaces with events above their floors
	waiting  map[string]chan struct{}   // closed when the namespace has a newer event
}

// ID returns the number of the shard.
func (s *Shard) ID() uint32 { return s.id }

// Last returns the last position that needs no further Append: its event is kept, or recorded as missing.
func (s *Shard) Last() Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.Position()
}

// Append keeps the events of the entry at an index, in the order of the entry. It sets their shard and position, and
// encodes each before it asks for the next, so that the caller may use the memory of an Event again. It never waits for
// the disk: if the buffer is full, the events are dropped and leave a gap. Events at or before Last are ignored. Append
// must not be called concurrently with Append or Gap of the same shard.
func (s *Shard) Append(index uint64, events iter.Seq[*Event]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	known, number, newer, atMs := s.last.Position(), uint32(0), 0, int64(0)
	takes, dropping := s.buffer.takes(), s.buffer.dropped != nil
	for e := range events {
		e.Shard, e.Index, e.Number = s.id, index, number
		number++
		if !e.Position().After(known) {
			continue
		}
		newer++
		if atMs = e.AtMs; takes {
			s.take(e)
		} else {
			s.buffer.drop(e.TimedPosition(), e.TimedPosition())
		}
	}
	if newer == 0 {
		return
	}
	s.last = &historypb.TimedPosition{Index: index, Number: number - 1, AtMs: atMs}
	if !takes {
		s.dropped(newer, !dropping)
	}
	if s.buffer.ready() {
		signal(s.store.wake)
	}
}

// take keeps an event in the buffer. mu is held.
func (s *Shard) take(e *Event) {
	e.Answer = cut(e.Answer, MaxAnswer)
	s.buffer.add(e)
	s.usageOf(e.Namespace).newest = e.Position()
	s.release(e.Namespace)
}

// dropped counts dropped events, and logs the first of a gap.
func (s *Shard) dropped(n int, first bool) {
	s.store.metrics.dropped.Add(float64(n))
	if first {
		s.store.metrics.gaps.Inc()
		s.log.Error("events of history are dropped: the buffer is full", "bytes", s.buffer.limit)
	}
}

// Gap records that the events of the entries from one index to another, both included, are missing, except for those at
// or before Last. A replica that a snapshot has restored calls it with 1 and the index of the snapshot.
func (s *Shard) Gap(from, to uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.last.Position()
	if s.closed || !endOf(to).After(last) {
		return
	}
	first := &historypb.TimedPosition{Index: from, AtMs: s.last.GetAtMs()}
	if !first.Position().After(last) {
		first = segment.After(s.last)
	}
	s.last = &historypb.TimedPosition{Index: to, Number: endOf(to).Number, AtMs: first.AtMs}
	s.buffer.miss(first, s.last)
	s.store.metrics.gaps.Inc()
}

// Sync makes the events of all entries up to an index durable, which must have been appended. The shard calls it before
// the log up to the index is cut. After an error the events stay in memory and are written when the disk takes them;
// the caller may cut the log nevertheless, at the risk of a gap.
func (s *Shard) Sync(index uint64) error {
	if err := s.flush(all); err != nil {
		return err
	}
	s.disk.Lock()
	defer s.disk.Unlock()
	if s.isClosed() {
		return ErrClosed
	}
	return s.result(s.sync(index))
}

// sync syncs the active segment and records the index. disk is held.
func (s *Shard) sync(index uint64) error {
	if s.active != nil && !s.durable {
		if err := s.active.Sync(); err != nil {
			return err
		}
		s.durable = true
	}
	return s.noteSynced(index)
}

// noteSynced writes the index into the mark, if the segments do not show it. disk is held.
func (s *Shard) noteSynced(index uint64) error {
	s.mu.Lock()
	known, f := index <= s.writtenTo(), s.floors.clone()
	s.mu.Unlock()
	if known {
		return nil
	}
	if err := s.saveMark(f, index); err != nil {
		return err
	}
	s.unsaved = false
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = index
	if end := endOf(index); end.After(s.last.Position()) {
		s.last = &historypb.TimedPosition{Index: index, Number: end.Number, AtMs: s.last.GetAtMs()}
	}
	return nil
}

// writtenTo returns the index of the last entry in segments. mu is held.
func (s *Shard) writtenTo() uint64 {
	if len(s.segments) == 0 {
		return s.floors.all.GetIndex()
	}
	return s.segments[len(s.segments)-1].last.Index
}

// Drop removes all events of the shard, in memory and on disk, and closes it. A later Store.Shard begins anew.
func (s *Shard) Drop() error {
	s.store.keeping.Lock()
	defer s.store.keeping.Unlock()
	s.disk.Lock()
	defer s.disk.Unlock()
	err := s.shut()
	if errors.Is(err, ErrClosed) {
		return err
	}
	if err := errors.Join(err, os.RemoveAll(s.dir)); err != nil {
		return err
	}
	s.store.forget(s.id)
	return nil
}

// close writes all events and closes the shard.
func (s *Shard) close() error {
	err := s.flush(all)
	s.disk.Lock()
	defer s.disk.Unlock()
	if err == nil && s.active != nil {
		err = s.active.Seal()
	}
	return errors.Join(err, s.shut())
}

// shut closes the shard without writing. disk is held.
func (s *Shard) shut() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.closed = true
	for namespace := range s.waiting {
		s.release(namespace)
	}
	if s.active == nil {
		return nil
	}
	err := s.active.Close()
	s.active = nil
	return err
}

func (s *Shard) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// release wakes the callers that wait for events of a namespace. mu is held.
func (s *Shard) release(namespace string) {
	if c := s.waiting[namespace]; c != nil {
		close(c)
		delete(s.waiting, namespace)
	}
}
