package disk

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
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

// kept is how many snapshots a disk keeps.
const kept = 2

// snapshot is a whole snapshot.
type snapshot struct {
	meta raft.SnapshotMeta
	data []byte
}

// newest returns the newest snapshot, or nil.
func (c *content) newest() *snapshot {
	if len(c.snapshots) == 0 {
		return nil
	}
	return c.snapshots[0]
}

// add inserts a snapshot, newest first by term, index and ID, and drops all but the first few.
func (c *content) add(s *snapshot) {
	c.snapshots = append(c.snapshots, s)
	slices.SortStableFunc(c.snapshots, func(a, b *snapshot) int {
		return cmp.Or(cmp.Compare(b.meta.Term, a.meta.Term), cmp.Compare(b.meta.Index, a.meta.Index),
			cmp.Compare(b.meta.ID, a.meta.ID))
	})
	c.snapshots = c.snapshots[:min(kept, len(c.snapshots))]
}

// Snapshots returns the disk as a raft.SnapshotStore.
func (s *Stores) Snapshots() raft.SnapshotStore { return snapshots{s} }

type snapshots struct{ *Stores }

// Create begins a snapshot. The disk holds nothing of it until its sink is closed.
func (s snapshots) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	s.disk.stats.Snapshots++
	return &sink{stores: s.Stores, snapshot: &snapshot{meta: raft.SnapshotMeta{
		Version: version, ID: fmt.Sprintf("%d-%d-%06d", term, index, s.disk.stats.Snapshots), Index: index, Term: term,
		Configuration: configuration, ConfigurationIndex: configurationIndex,
	}}}, nil
}

// List returns the whole snapshots, the newest first.
func (s snapshots) List() (metas []*raft.SnapshotMeta, err error) {
	s.read(func(c *content) {
		for _, one := range c.snapshots {
			meta := one.meta
			metas = append(metas, &meta)
		}
	})
	return metas, nil
}

// Open opens the snapshot with the given ID.
func (s snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	var found *snapshot
	s.read(func(c *content) {
		for _, one := range c.snapshots {
			if one.meta.ID == id {
				found = one
			}
		}
	})
	if found == nil {
		return nil, nil, fmt.Errorf("no snapshot %s", id)
	}
	meta := found.meta
	return &meta, io.NopCloser(bytes.NewReader(found.data)), nil
}

// sink is a snapshot under way.
type sink struct {
	stores   *Stores
	snapshot *snapshot
	buffer   bytes.Buffer
	over     bool
}

func (s *sink) ID() string { return s.snapshot.meta.ID }

func (s *sink) Write(p []byte) (int, error) { return s.buffer.Write(p) }

// Close makes the snapshot whole. It returns an error if the disk holds a newer snapshot by now, as the real store
// does.
func (s *sink) Close() error {
	if s.over {
		return nil
	}
	s.over = true
	var newest *snapshot
	s.stores.read(func(c *content) { newest = c.newest() })
	if newest != nil && newest.meta.Index > s.snapshot.meta.Index {
		return errors.New("there is a newer snapshot by now")
	}
	s.snapshot.data = s.buffer.Bytes()
	s.snapshot.meta.Size = int64(len(s.snapshot.data))
	s.stores.write(1, func(c *content, n int) {
		if n == 1 {
			c.add(s.snapshot)
		}
	})
	return nil
}

// Cancel drops the snapshot.
func (s *sink) Cancel() error {
	s.over = true
	return nil
}

// Newest returns the content of the newest snapshot and the index that it stands for, or nil and 0. The caller must
// not change the content.
func (d *Disk) Newest() (data []byte, index uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if newest := d.content.newest(); newest != nil {
		return newest.data, newest.meta.Index
	}
	return nil, 0
}

// Entry reads one entry of the log on the disk, or returns raft.ErrLogNotFound.
func (d *Disk) Entry(index uint64, entry *raft.Log) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.content.logs[index]
	if l == nil {
		return raft.ErrLogNotFound
	}
	*entry = *l
	return nil
}
