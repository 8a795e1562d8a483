package shard

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/raftgroup/install"
	"github.com/belfryhq/belfry/raftgroup/logcache"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
	"github.com/belfryhq/belfry/raftgroup/raftlog"
)

// How Raft is set up. Entries are large, so that what counts entries is small.
const (
	raftAppendEntries = 32                // in one request: at most about 4 MiB
	raftLogCache      = 2 * maxEntryBytes // of the newest entries kept in memory, for followers
	raftNever         = 365 * 24 * time.Hour
)

// errNoState: the node has held this group before, and nothing of it is left.
var errNoState = errors.New("the group's data is gone: remove this replica and let it join again")

// openRaft opens stores and snapshots, makes the group if it is new, and starts Raft.
func (s *Shard) openRaft() error {
	if err := s.openDisk(); err != nil {
		return err
	}
	taken, err := s.openSnapshots()
	if err != nil {
		return err
	}
	if s.stores, err = s.openStores(); err != nil {
		return err
	}
	log := logcache.New(s.stores.Log(), raftLogCache)
	gate := install.New(s.cfg.Transport, log, s.cfg.Logger, func(err error) {
		s.fatal(fmt.Errorf("shard %d on node %s: %w", s.cfg.ID, s.cfg.NodeID, err))
	})
	gate.Remember(s.cfg.Applied)
	transport := transport{
		contacts: s.contacts, pacer: s.pacer, holdBack: s.holdBack, leadsIn: s.leadsIn, lacks: s.lacks,
	}.wrap(gate.Transport())
	err = s.bootstrap(taken, transport)
	if err == nil {
		s.raft, err = raft.NewRaft(s.raftConfig(), s.applier, log, s.stores.Stable(), taken, transport)
	}
	if err != nil {
		return errors.Join(err, s.stores.Close())
	}
	gate.Open(s.raft)
	return nil
}

// openDisk opens the group's own disk, unless it was opened before or there is something else in its place.
func (s *Shard) openDisk() (err error) {
	if s.cfg.Stores != nil {
		return nil
	}
	if s.cfg.Disk == nil {
		s.cfg.Disk, err = OpenDisk(s.cfg)
	}
	if err == nil {
		s.cfg.Disk.OnFatal(s.fatal)
	}
	return err
}

// OpenDisk opens the files of a group. It reads only the fields of cfg that say where and how the files are kept.
func OpenDisk(cfg Config) (*raftdisk.Disk, error) {
	return raftdisk.Open(raftdisk.Config{
		Dir: cfg.Dir, LogDir: filepath.Join(cfg.Dir, "log"), Kind: cfg.LogStore, Existing: cfg.Existing,
		WriteTimeout: cfg.Timing.Write, Journal: cfg.Journal, Fatal: cfg.Fatal, Logger: cfg.Logger,
		Registerer: labelled(cfg.Registerer, cfg.ID), Owner: cfg.Owner,
	})
}

func (s *Shard) openSnapshots() (raft.SnapshotStore, error) {
	if s.cfg.Snapshots != nil {
		return s.cfg.Snapshots()
	}
	return s.cfg.Disk.Snapshots, nil
}

func (s *Shard) openStores() (Stores, error) {
	if s.cfg.Stores != nil {
		return s.cfg.Stores()
	}
	return s.cfg.Disk.Stores, nil
}

// bootstrap writes the configuration of a new group. Every replica of a new group writes the same one.
func (s *Shard) bootstrap(taken raft.SnapshotStore, transport raft.Transport) error {
	hasState, err := raft.HasExistingState(s.stores.Log(), s.stores.Stable(), taken)
	switch {
	case err != nil:
		return err
	case hasState:
		return nil
	case s.cfg.Existing:
		return errNoState
	case len(s.cfg.Replicas) == 0:
		return nil // a replica that joins: the leader will send it everything
	}
	servers := make([]raft.Server, len(s.cfg.Replicas))
	for i, r := range s.cfg.Replicas {
		servers[i] = raft.Server{ID: raft.ServerID(r.NodeID), Address: raft.ServerAddress(r.NodeID)}
	}
	err = raft.BootstrapCluster(s.raftConfig(), s.stores.Log(), s.stores.Stable(), taken, transport,
		raft.Configuration{Servers: servers})
	if err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	return nil
}

// leadsIn tells whether Raft leads in that term, and goes on to.
func (s *Shard) leadsIn(term uint64) bool {
	return s.opened.Load() && !s.stopping.Load() && s.raft.State() == raft.Leader && s.raft.CurrentTerm() == term
}

// lacks is how many entries a log lacks that ends there; as long as Raft is being opened, any number.
func (s *Shard) lacks(lastLog uint64) uint64 {
	if !s.opened.Load() {
		return math.MaxUint64
	}
	last := s.raft.LastIndex()
	return last - min(lastLog, last)
}

func (s *Shard) raftConfig() *raft.Config {
	c, timing := raft.DefaultConfig(), s.cfg.Timing
	c.LocalID = raft.ServerID(s.cfg.NodeID)
	c.Logger = raftlog.New(s.cfg.Logger)
	c.NotifyCh = s.watch.notify
	c.NoLegacyTelemetry = true
	c.HeartbeatTimeout, c.ElectionTimeout = s.tuning.timeouts()
	c.LeaderLeaseTimeout, c.CommitTimeout = timing.Lease, timing.Commit
	c.MaxAppendEntries = raftAppendEntries
	c.TrailingLogs = s.cfg.SnapshotTail
	c.SnapshotThreshold, c.SnapshotInterval = math.MaxUint64, raftNever // see snapshotter
	c.ShutdownOnRemove = false
	return c
}

// observeLeaders passes on who leads, on every replica.
func (s *Shard) observeLeaders() {
	if s.cfg.OnLeader == nil {
		return
	}
	news := make(chan raft.Observation, 16)
	observer := raft.NewObserver(news, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	s.raft.RegisterObserver(observer)
	s.workers.Go(func() {
		defer s.raft.DeregisterObserver(observer)
		for {
			select {
			case <-s.ctx.Done():
				return
			case <-news:
				leader, term := s.Leader()
				s.cfg.OnLeader(Change{Shard: s.cfg.ID, Leader: leader, Term: term})
			}
		}
	})
}

// Position is the replica's term, and the last entry that Raft gave it to apply.
func (s *Shard) Position() (term, applied uint64) { return s.raft.CurrentTerm(), s.raft.AppliedIndex() }

// Voters returns the node ids of the group's voters.
func (s *Shard) Voters() []string {
	var voters []string
	for _, server := range s.raft.GetConfiguration().Configuration().Servers {
		if server.Suffrage == raft.Voter {
			voters = append(voters, string(server.ID))
		}
	}
	return voters
}

// lastMajority returns the latest moment at which a request left that a majority of the voters has since answered in
// this term.
func (s *Shard) lastMajority(term uint64) (stamp, bool) {
	return s.contacts.majority(s.cfg.NodeID, s.Voters(), term)
}
