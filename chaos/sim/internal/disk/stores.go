package disk

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// Stores is the disk as one process sees it. It is a raftgroup.Storage, and Raft's log store and stable store.
type Stores struct {
	disk    *Disk
	content *content // guarded by the disk's mutex
	process Process
	timeout time.Duration
	fatal   func(error)
	turn    chan struct{} // capacity 1: one write at a time
}

var (
	_ raft.LogStore          = (*Stores)(nil)
	_ raft.MonotonicLogStore = (*Stores)(nil)
	_ raft.StableStore       = (*Stores)(nil)
)

// Log returns the log store.
func (s *Stores) Log() raft.LogStore { return s }

// Stable returns the store of term and vote.
func (s *Stores) Stable() raft.StableStore { return s }

// Close does nothing: Stores keeps nothing open.
func (s *Stores) Close() error { return nil }

// IsMonotonic returns true: the store refuses gaps, as the real one does.
func (s *Stores) IsMonotonic() bool { return true }

// write makes one change in its turn. A write that fails calls fatal, which ends the process. The change is then made
// in the void, so that the rest of the process meets no error.
func (s *Stores) write(parts int, do func(c *content, parts int)) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-s.process.Life().Done():
	}
	w := &write{parts, do}
	wait, alive, err := s.disk.begin(s, w)
	if alive && s.process.Sleep(wait) && s.process.Gate() && err != nil {
		s.fatal(err)
	}
	s.disk.end(s, w)
}

func (s *Stores) read(do func(c *content)) {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	do(s.content)
}

// FirstIndex returns the first index of the log, 0 if it is empty.
func (s *Stores) FirstIndex() (first uint64, err error) {
	s.read(func(c *content) { first = c.first })
	return first, nil
}

// LastIndex returns the last index of the log, 0 if it is empty.
func (s *Stores) LastIndex() (last uint64, err error) {
	s.read(func(c *content) { last = c.last })
	return last, nil
}

// GetLog reads one entry, or returns raft.ErrLogNotFound.
func (s *Stores) GetLog(index uint64, entry *raft.Log) error {
	err := raft.ErrLogNotFound
	s.read(func(c *content) {
		if l := c.logs[index]; l != nil {
			*entry, err = *l, nil
		}
	})
	return err
}

// StoreLog appends one entry.
func (s *Stores) StoreLog(entry *raft.Log) error { return s.StoreLogs([]*raft.Log{entry}) }

// StoreLogs appends copies of entries. It returns an error if the entries leave a gap.
func (s *Stores) StoreLogs(entries []*raft.Log) error {
	var last uint64
	s.read(func(c *content) { last = c.last })
	if last > 0 && entries[0].Index != last+1 {
		return fmt.Errorf("entry %d after entry %d", entries[0].Index, last)
	}
	copies := make([]*raft.Log, len(entries))
	for i, e := range entries {
		own := *e
		copies[i] = &own
	}
	s.reportMembers(copies)
	s.write(len(copies), func(c *content, n int) {
		for _, e := range copies[:n] {
			c.append(e)
		}
	})
	return nil
}

func (c *content) append(e *raft.Log) {
	c.logs[e.Index] = e
	if c.first == 0 {
		c.first = e.Index
	}
	c.last = e.Index
}

// DeleteRange removes the entries from first to last. It returns an error if entries would remain on both sides.
func (s *Stores) DeleteRange(first, last uint64) error {
	var err error
	s.read(func(c *content) {
		if first > c.first && last < c.last {
			err = fmt.Errorf("entries %d to %d are in the middle of %d to %d", first, last, c.first, c.last)
		}
	})
	if err != nil {
		return err
	}
	s.write(1, func(c *content, n int) {
		if n == 1 {
			c.remove(first, last)
		}
	})
	return nil
}

func (c *content) remove(first, last uint64) {
	first, last = max(first, c.first), min(last, c.last)
	if c.last == 0 || first > last {
		return
	}
	for i := first; i <= last; i++ {
		delete(c.logs, i)
	}
	switch {
	case first == c.first && last == c.last:
		c.first, c.last = 0, 0
	case first == c.first:
		c.first = last + 1
	default:
		c.last = first - 1
	}
}

// errNotFound is the error of a missing key. Raft compares its text.
var errNotFound = errors.New("not found")

// Set stores a copy of value under key.
func (s *Stores) Set(key, value []byte) error {
	k, v := string(key), slices.Clone(value)
	s.write(1, func(c *content, n int) {
		if n == 1 {
			c.values[k] = v
		}
	})
	return nil
}

// Get returns the value of key, or an error with the text "not found". The caller must not change the value.
func (s *Stores) Get(key []byte) (value []byte, err error) {
	err = errNotFound
	s.read(func(c *content) {
		if v, ok := c.values[string(key)]; ok {
			value, err = v, nil
		}
	})
	return value, err
}

// SetUint64 stores a number under key.
func (s *Stores) SetUint64(key []byte, value uint64) error {
	k := string(key)
	s.write(1, func(c *content, n int) {
		if n == 1 {
			c.numbers[k] = value
		}
	})
	return nil
}

// GetUint64 returns the number of key, or an error with the text "not found".
func (s *Stores) GetUint64(key []byte) (value uint64, err error) {
	err = errNotFound
	s.read(func(c *content) {
		if v, ok := c.numbers[string(key)]; ok {
			value, err = v, nil
		}
	})
	return value, err
}
