package disk

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/hashicorp/raft"
)

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
