package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/witness"
	"github.com/belfryhq/belfry/cluster/replicas"
	"github.com/belfryhq/belfry/raftgroup/journal"
	"github.com/belfryhq/belfry/raftgroup/logstore"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
	"github.com/belfryhq/belfry/shard"
)

// DisksConfig describes the data folder.
type DisksConfig struct {
	Identity *Identity
	Records  *witness.Table // has the node's own records of its replicas
	Journal  *journal.Journal
	Kind     logstore.Kind

	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: none
	Fatal      func(error)
}

// Disks is the open disks of a node. Its methods are safe for concurrent use.
type Disks struct {
	cfg DisksConfig

	mu     sync.Mutex
	disks  map[uint32]*raftdisk.Disk // by group
	unread map[uint32]error          // groups that cannot be opened, with the reasons
}

// NewDisks returns a set without open disks.
func NewDisks(cfg DisksConfig) *Disks {
	return &Disks{cfg: cfg, disks: make(map[uint32]*raftdisk.Disk), unread: make(map[uint32]error)}
}

// OpenControl opens this node's files of the control group. The node is useless without them.
func (s *Disks) OpenControl() error { return s.openWhole(control.Number) }

// OpenShards opens this node's files of its shards, until ctx ends. A shard whose files cannot be opened will not run;
// the others do. It returns an error if a folder belongs to another node. In that case no folder is trusted.
func (s *Disks) OpenShards(ctx context.Context) error {
	s.openHeld(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	for group, err := range s.Unread() {
		if errors.Is(err, raftdisk.ErrForeign) {
			return fmt.Errorf("shard %d: %w", group, err)
		}
	}
	return nil
}

// openHeld opens the disks of all shards that the data folder holds, a few at a time.
func (s *Disks) openHeld(ctx context.Context) {
	room := semaphore.NewWeighted(replicas.OpenAtOnce)
	var opening sync.WaitGroup
	defer opening.Wait()
	for _, group := range s.cfg.Identity.Held() {
		if group == control.Number {
			continue
		}
		if room.Acquire(ctx, 1) != nil {
			return
		}
		opening.Go(func() {
			defer room.Release(1)
			if err := s.openWhole(group); err != nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.unread[group] = err
			}
		})
	}
}

// openWhole opens the disk of a group. It returns an error if the disk lacks entries in the node's own record of the
// replica, because an applied entry had been on the disk.
func (s *Disks) openWhole(group uint32) error {
	d, err := s.Get(group)
	if err != nil {
		return err
	}
	return s.cfg.Records.Kept(group).Lost(d.Term(), d.Last())
}

// Get returns the open disk of a group. It opens the disk unless that has been tried before.
func (s *Disks) Get(group uint32) (*raftdisk.Disk, error) {
	s.mu.Lock()
	d, err := s.disks[group], s.unread[group]
	s.mu.Unlock()
	if d != nil || err != nil {
		return d, err
	}
	if d, err = s.open(group); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disks[group] = d
	return d, nil
}

// open opens the files of a group, and creates those of a new group.
func (s *Disks) open(group uint32) (*raftdisk.Disk, error) {
	id := s.cfg.Identity
	cfg := raftdisk.Config{
		Dir: id.GroupDir(group), Kind: s.cfg.Kind, Existing: id.Opened(group),
		Owner:   &raftdisk.Owner{Cluster: id.ClusterID(), Node: id.NodeID(), Group: group},
		Journal: s.cfg.Journal, Fatal: s.cfg.Fatal,
	}
	if group == control.Number {
		cfg.Logger, cfg.Registerer = s.cfg.Logger.With("group", "control"), shard.Labelled(s.cfg.Registerer, group)
		return control.OpenDisk(cfg)
	}
	cfg.Logger, cfg.Registerer = s.cfg.Logger.With("shard", group), s.cfg.Registerer
	return shard.OpenDisk(group, cfg)
}

// Open returns the open disks by group.
func (s *Disks) Open() map[uint32]*raftdisk.Disk {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.disks)
}

// Unread returns the groups that cannot be opened, with the reasons.
func (s *Disks) Unread() map[uint32]error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.unread)
}

// Close closes the open disk of a group, so that it can be opened again.
func (s *Disks) Close(group uint32) error {
	s.mu.Lock()
	d := s.disks[group]
	delete(s.disks, group)
	s.mu.Unlock()
	return d.Close()
}

// Drop closes the disk of a group that leaves the node, and forgets that it could not be opened.
func (s *Disks) Drop(group uint32) error {
	s.mu.Lock()
	d := s.disks[group]
	delete(s.disks, group)
	delete(s.unread, group)
	s.mu.Unlock()
	if d == nil {
		return nil
	}
	return d.Close()
}

// CloseAll closes the disks that no group has taken over. A group closes its own disk, and a second close is harmless.
func (s *Disks) CloseAll() error {
	var errs []error
	for _, d := range s.Open() {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}
