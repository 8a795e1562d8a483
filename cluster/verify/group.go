package verify

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/raftgroup"
	"github.com/belfryhq/belfry/raftgroup/logstore"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
	"github.com/belfryhq/belfry/raftgroup/snapshots"
	"github.com/belfryhq/belfry/shard"
)

// state is the state of a group, restored from a snapshot and advanced by the log.
type state interface {
	Restore(content io.Reader) error
	Apply(entry raftgroup.Entry) (answer any, err error)
}

func stateOf(number uint32) func() state {
	if number == 0 {
		return func() state { return control.NewReplay() }
	}
	return func() state { return shard.NewReplay(number) }
}

// look holds the findings about a group so far.
type look struct {
	Group
	state    func() state // makes an empty state
	made     state        // restored from the newest whole snapshot, and then advanced by the log
	snapTerm uint64
	lastTerm uint64    // of the last entry, or of the snapshot if that is newer
	lastAt   time.Time // when the leader appended the last entry; zero: not known
	voters   []string
}

// readSnapshots restores each snapshot, the oldest first.
func (l *look) readSnapshots(dir string) {
	l.made = l.state()
	store, err := snapshots.Inspect(dir)
	if err != nil {
		l.wrong("snapshots: %v", err)
		return
	}
	list, err := store.List()
	if err != nil {
		l.wrong("snapshots: %v", err)
		return
	}
	l.findUnlisted(dir, list)
	slices.Reverse(list)
	for _, meta := range list {
		if err := l.restore(store, meta); err != nil {
			l.wrong("snapshot %s: %v", meta.ID, err)
		}
	}
}

// findUnlisted reports the snapshots that Raft silently skips because their description cannot be read.
func (l *look) findUnlisted(dir string, list []*raft.SnapshotMeta) {
	entries, err := os.ReadDir(filepath.Join(dir, "snapshots"))
	if err != nil {
		l.wrong("snapshots: %v", err)
	}
	for _, e := range entries {
		listed := slices.ContainsFunc(list, func(m *raft.SnapshotMeta) bool { return m.ID == e.Name() })
		if e.IsDir() && !listed && !strings.HasSuffix(e.Name(), ".tmp") { // .tmp: a crash left it unfinished
			l.wrong("snapshot %s: its description cannot be read", e.Name())
		}
	}
}

func (l *look) restore(store raft.SnapshotStore, meta *raft.SnapshotMeta) error {
	_, content, err := store.Open(meta.ID) // reads it whole and compares its checksum
	if err != nil {
		return err
	}
	made := l.state()
	if err := errors.Join(made.Restore(content), ignoreClosed(content.Close())); err != nil {
		return err
	}
	l.made, l.Snapshot, l.snapTerm, l.lastTerm = made, meta.Index, meta.Term, meta.Term
	l.voters = raftdisk.VotersOf(meta.Configuration)
	return nil
}

// readLog opens the log as a node would, and applies the entries after the snapshot.
func (l *look) readLog(dir string) {
	stores, err := l.open(dir)
	if err != nil {
		l.wrong("log: %v", err)
		return
	}
	defer func() {
		if err := stores.Close(); err != nil {
			l.wrong("log: %v", err)
		}
	}()
	if l.Term, err = stores.Stable().GetUint64([]byte("CurrentTerm")); err != nil {
		l.wrong("term: %v", err)
	}
	if configuration, index := stores.Configuration(); index > l.Snapshot {
		l.voters = raftdisk.VotersOf(configuration)
	}
	if err := l.replay(stores.Log()); err != nil {
		l.wrong("log: %v", err)
	}
}

// open opens the log, which may be of either kind.
func (l *look) open(dir string) (*logstore.Stores, error) {
	if l.Number != 0 {
		dir = filepath.Join(dir, "log")
	}
	cfg := logstore.Config{
		Dir: dir, Kind: logstore.WAL, Existing: true, SnapshotIndex: l.Snapshot, SnapshotTerm: l.snapTerm,
		Fatal: func(error) {}, // every write fails from then on
	}
	stores, err := logstore.Open(cfg)
	if errors.Is(err, logstore.ErrKindMismatch) {
		cfg.Kind = logstore.BoltDB
		stores, err = logstore.Open(cfg)
	}
	return stores, err
}

func (l *look) replay(log raft.LogStore) (err error) {
	if l.First, err = log.FirstIndex(); err != nil {
		return err
	}
	if l.Last, err = log.LastIndex(); err != nil {
		return err
	}
	var term uint64
	for index := max(l.First, l.Snapshot+1); index <= l.Last && index > 0; index++ {
		var entry raft.Log
		if err := log.GetLog(index, &entry); err != nil {
			return fmt.Errorf("entry %d: %w", index, err)
		}
		if entry.Term < term {
			return fmt.Errorf("entry %d is of term %d, the one before of term %d", index, entry.Term, term)
		}
		term = entry.Term
		l.lastTerm, l.lastAt = entry.Term, entry.AppendedAt
		if entry.Type != raft.LogCommand {
			continue
		}
		if _, err := l.made.Apply(raftgroup.EntryOf(&entry)); err != nil {
			return fmt.Errorf("entry %d cannot be applied: %w", index, err)
		}
	}
	if term > l.Term {
		return fmt.Errorf("the last entry is of term %d, and the term that the node knows is %d", term, l.Term)
	}
	return nil
}

// tell adds the description of the state to the report, for a shard.
func (l *look) tell() {
	made, ok := l.made.(*shard.Replay)
	if !ok {
		return
	}
	at, counts := made.State()
	l.Applied, l.Commands, l.Hash = at.Index, at.Commands, fmt.Sprintf("%016x", at.Sum)
	l.Tasks = byState(counts)
}
