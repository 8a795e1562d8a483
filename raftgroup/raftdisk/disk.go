// Package raftdisk opens the files of one Raft group on this node's disk: log, votes and snapshots. It does not run the
// group, because a starting node examines all of its replicas before it runs any of them.
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

// snapshotsKept is the number of snapshots that a group keeps.
const snapshotsKept = 2

// Config names the files to open.
type Config struct {
	Dir      string // the group's folder, with its snapshots
	LogDir   string // the folder of its log and votes
	Kind     logstore.Kind
	Existing bool // the node's own record shows that the group was opened here before

	Owner *Owner // the expected owner of the files; nil: not checked

	Journal *journal.Journal // the node's journal; nil: each append is synced by itself

	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: none
	Fatal      func(error)           // called when the disk has failed; see logstore.Config
}

// Disk holds the open files of a group: log, votes and snapshots. It implements raftgroup.Storage.
type Disk struct {
	*logstore.Stores

	snapshots *snapshots.Store
	newest    raft.SnapshotMeta // zero: none
	term      uint64
	last      uint64

	mu    sync.Mutex
	fatal func(error)
}

// Open opens the files of a group and makes those of a new one. Its errors are those of logstore.Open and of reading
// snapshots.
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

// look reads the term and the last index. They do not change before the group runs.
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

// OnFatal replaces the function that is called when the disk fails. A group sets its own when it opens.
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

// Term returns the replica's term at Open.
func (d *Disk) Term() uint64 { return d.term }

// Last returns the index of the last entry at Open, in the log or covered by the newest snapshot.
func (d *Disk) Last() uint64 { return d.last }

// Holds reports whether the log has an entry of that index and term, or the newest snapshot covers it. It returns false
// for an entry that cannot be read.
func (d *Disk) Holds(index, term uint64) bool {
	if index <= d.newest.Index {
		return true
	}
	var entry raft.Log
	return d.Log().GetLog(index, &entry) == nil && entry.Term == term
}

// Voters returns the node ids of the group's voters, by the newest configuration in the log or the newest snapshot.
// Raft uses that one, committed or not. Empty: there is no configuration yet.
func (d *Disk) Voters() []string {
	configuration, index := d.Configuration()
	if index <= d.newest.ConfigurationIndex {
		configuration = d.newest.Configuration
	}
	return VotersOf(configuration)
}

// VotersOf returns the node ids of a configuration's voters.
func VotersOf(configuration raft.Configuration) []string {
	var voters []string
	for _, s := range configuration.Servers {
		if s.Suffrage == raft.Voter {
			voters = append(voters, string(s.ID))
		}
	}
	return voters
}
