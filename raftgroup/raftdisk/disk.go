// Package raftdisk opens the files of one Raft group on this node's disk: log, votes and snapshots. It does not run the
// group: a node that starts examines all of its replicas before it runs any of them.
package raftdisk

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/raftgroup/journal"
	"github.com/belfryhq/belfry/raftgroup/logstore"
	"github.com/belfryhq/belfry/raftgroup/snapshots"
)

// snapshotsKept is how many snapshots a group keeps.
const snapshotsKept = 2

// Config says what to open.
type Config struct {
	Dir      string // of the group: its snapshots lie there
	LogDir   string // of its log and votes
	Kind     logstore.Kind
	Existing bool // the node's own record says that the group was opened here before

	Owner *Owner // whose it must be; nil: not looked at

	Journal *journal.Journal // the node's; nil: each append is synced by itself

	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: none
	Fatal      func(error)           // the disk has failed; see logstore.Config
}

// Disk is the open files of a group: log, votes and snapshots. It is a raftgroup.Storage.
type Disk struct {
	*logstore.Stores

	snapshots *snapshots.Store
	newest    raft.SnapshotMeta // zeros: none
	term      uint64
	last      uint64

	mu    sync.Mutex
	fatal func(error)
}

// Open opens the files of a group, and makes those that a new group needs. Its errors are those of logstore.Open and of
// reading snapshots.
func Open(cfg Config) (*Disk, error) {
	d := &Disk{fatal: cfg.Fatal}
	if cfg.Owner != nil {
		if err := cfg.Owner.mark(cfg.Dir, cfg.LogDir); err != nil {
			return nil, err
		}
	}
	var err error
	if d.snapshots, err = snapshots.Open(cfg.Dir, snapshotsKept, cfg.Logger); err != nil {
		return nil, err
	}
	if d.newest, err = snapshots.Newest(d.snapshots); err != nil {
		return nil, err
	}
	d.Stores, err = logstore.Open(logstore.Config{
		Dir: cfg.LogDir, Kind: cfg.Kind, Existing: cfg.Existing,
		SnapshotIndex: d.newest.Index, SnapshotTerm: d.newest.Term,
		Journal: cfg.Journal, Fatal: d.fail, Logger: cfg.Logger, Registerer: cfg.Registerer,
	})
	if err != nil {
		return nil, err
	}
	if err := d.look(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// look reads term and last index. Nothing changes them before the group runs.
func (d *Disk) look() error {
	var err error
	d.term, err = d.Stable().GetUint64([]byte("CurrentTerm"))
	if err != nil && !errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return fmt.Errorf("read the term: %w", err)
	}
	d.last, err = d.Log().LastIndex()
	d.last = max(d.last, d.newest.Index)
	return err
}

// Snapshots returns the store of the group's snapshots.
func (d *Disk) Snapshots() raft.SnapshotStore { return d.snapshots }

// OnFatal sets the function that is called when the disk fails, from now on. A group sets its own when it opens.
func (d *Disk) OnFatal(fatal func(error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fatal = fatal
}

func (d *Disk) fail(err error) {
	d.mu.Lock()
	fatal := d.fatal
	d.mu.Unlock()
	fatal(err)
}

// Term is the replica's term as it was opened.
func (d *Disk) Term() uint64 { return d.term }

// Last is the index of the last entry as it was opened, in the log or stood for by the newest snapshot.
func (d *Disk) Last() uint64 { return d.last }

// Holds reports whether the log has an entry of that index which was written in that term, or the newest snapshot
// stands for it. An entry that cannot be read is not held.
func (d *Disk) Holds(index, term uint64) bool {
	if index <= d.newest.Index {
		return true
	}
	var entry raft.Log
	return d.Log().GetLog(index, &entry) == nil && entry.Term == term
}

// Voters are the node ids of the group's voters, by the newest configuration that the log or the newest snapshot holds,
// committed or not, as Raft goes by it; empty: there is none yet.
func (d *Disk) Voters() []string {
	configuration, index := d.Configuration()
	if index <= d.newest.ConfigurationIndex {
		configuration = d.newest.Configuration
	}
	var voters []string
	for _, s := range configuration.Servers {
		if s.Suffrage == raft.Voter {
			voters = append(voters, string(s.ID))
		}
	}
	return voters
}
