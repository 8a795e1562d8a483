package recovery

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/witness"
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

// newState returns the empty state of a group.
func newState(number uint32) state {
	if number == controlNumber {
		return control.NewReplay()
	}
	return shard.NewReplay(number)
}

// logDir returns the folder of a group's log in the group's folder.
func logDir(dir string, number uint32) string {
	if number == controlNumber {
		return dir
	}
	return filepath.Join(dir, "log")
}

// replica is a group's replica in a folder, after the last entry of its log, committed or not.
type replica struct {
	Replica
	state    state     // restored from the newest whole snapshot, and then advanced by the log
	snapTerm uint64    // of that snapshot
	lastTerm uint64    // of the last entry, or of the snapshot if that is newer
	lastAt   time.Time // when the leader appended the last entry, by its clock; zero: not known
	voters   []string  // node ids, by the newest configuration; empty: none is known
}

// readReplica reads one group, on a copy of the files that opening it would change. complete adds to the copy the
// acknowledged entries that only the node's journal holds, as after a loss of power.
func readReplica(dir string, number uint32, kept witness.Position, temp string,
	complete func(copied string) error) (_ *replica, err error) {
	scratch, err := os.MkdirTemp(temp, "belfry-verify-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	r := &replica{Replica: Replica{Number: number, Problems: []string{}}, state: newState(number)}
	if _, err := os.Stat(dir); err != nil {
		r.wrong("the group has lived here, and its folder is gone: %v", err)
		return r, nil
	}
	if err := mirror(dir, scratch); err != nil {
		return nil, fmt.Errorf("making a copy to look at: %w", err)
	}
	if err := complete(scratch); err != nil {
		r.wrong("%v", err)
	}
	r.readSnapshots(scratch)
	r.readLog(scratch)
	if err := kept.Lost(r.Term, r.lastIndex()); err != nil && len(r.Problems) == 0 {
		r.wrong("log: %v", err)
	}
	if replayed, ok := r.state.(*shard.Replay); ok {
		at, counts := replayed.State()
		r.Applied, r.Commands, r.Hash = at.Index, at.Commands, fmt.Sprintf("%016x", at.Sum)
		r.Tasks = byState(counts)
	}
	return r, nil
}

func (r *replica) wrong(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// lastIndex returns the index of the last entry, or of the snapshot if that is newer.
func (r *replica) lastIndex() uint64 { return max(r.Last, r.Snapshot) }

// readSnapshots restores each snapshot, the oldest first.
func (r *replica) readSnapshots(dir string) {
	store, err := snapshots.Inspect(dir)
	if err != nil {
		r.wrong("snapshots: %v", err)
		return
	}
	list, err := store.List()
	if err != nil {
		r.wrong("snapshots: %v", err)
		return
	}
	r.findUnlisted(dir, list)
	slices.Reverse(list)
	for _, meta := range list {
		if err := r.restore(store, meta); err != nil {
			r.wrong("snapshot %s: %v", meta.ID, err)
		}
	}
}

// findUnlisted reports the snapshots that Raft silently skips because their description cannot be read.
func (r *replica) findUnlisted(dir string, list []*raft.SnapshotMeta) {
	entries, err := os.ReadDir(filepath.Join(dir, "snapshots"))
	if err != nil {
		r.wrong("snapshots: %v", err)
	}
	for _, e := range entries {
		listed := slices.ContainsFunc(list, func(m *raft.SnapshotMeta) bool { return m.ID == e.Name() })
		if e.IsDir() && !listed && !strings.HasSuffix(e.Name(), ".tmp") { // .tmp: a crash left it unfinished
			r.wrong("snapshot %s: its description cannot be read", e.Name())
		}
	}
}

func (r *replica) restore(store raft.SnapshotStore, meta *raft.SnapshotMeta) error {
	_, content, err := store.Open(meta.ID) // reads it whole and compares its checksum
	if err != nil {
		return err
	}
	restored := newState(r.Number)
	if err := errors.Join(restored.Restore(content), ignoreClosed(content.Close())); err != nil {
		return err
	}
	r.state, r.Snapshot, r.snapTerm, r.lastTerm = restored, meta.Index, meta.Term, meta.Term
	r.voters = raftdisk.VotersOf(meta.Configuration)
	return nil
}

// readLog opens the log as a node would, and applies the entries after the snapshot.
func (r *replica) readLog(dir string) {
	stores, err := r.open(dir)
	if err != nil {
		r.wrong("log: %v", err)
		return
	}
	defer func() {
		if err := stores.Close(); err != nil {
			r.wrong("log: %v", err)
		}
	}()
	if r.Term, err = stores.Stable().GetUint64([]byte("CurrentTerm")); err != nil {
		r.wrong("term: %v", err)
	}
	if configuration, index := stores.Configuration(); index > r.Snapshot {
		r.voters = raftdisk.VotersOf(configuration)
	}
	if err := r.replay(stores.Log()); err != nil {
		r.wrong("log: %v", err)
	}
}

// open opens the log, which may be of either kind.
func (r *replica) open(dir string) (*logstore.Stores, error) {
	cfg := logstore.Config{
		Dir: logDir(dir, r.Number), Kind: logstore.WAL, Existing: true, SnapshotIndex: r.Snapshot, SnapshotTerm: r.snapTerm,
		Fatal: func(error) {}, // every write fails from then on
	}
	stores, err := logstore.Open(cfg)
	if errors.Is(err, logstore.ErrKindMismatch) {
		cfg.Kind = logstore.BoltDB
		stores, err = logstore.Open(cfg)
	}
	return stores, err
}

func (r *replica) replay(log raft.LogStore) (err error) {
	if r.First, err = log.FirstIndex(); err != nil {
		return err
	}
	if r.Last, err = log.LastIndex(); err != nil {
		return err
	}
	var term uint64
	for index := max(r.First, r.Snapshot+1); index <= r.Last && index > 0; index++ {
		var entry raft.Log
		if err := log.GetLog(index, &entry); err != nil {
			return fmt.Errorf("entry %d: %w", index, err)
		}
		if entry.Term < term {
			return fmt.Errorf("entry %d is of term %d, the one before of term %d", index, entry.Term, term)
		}
		term = entry.Term
		r.lastTerm, r.lastAt = entry.Term, entry.AppendedAt
		if entry.Type != raft.LogCommand {
			continue
		}
		if _, err := r.state.Apply(raftgroup.EntryOf(&entry)); err != nil {
			return fmt.Errorf("entry %d cannot be applied: %w", index, err)
		}
	}
	if term > r.Term {
		return fmt.Errorf("the last entry is of term %d, and the term that the node knows is %d", term, r.Term)
	}
	return nil
}

// mirror rebuilds a group's folder at another path. It copies the files that opening the group may change, and links
// the snapshots, which are large and never change.
func mirror(from, to string) error {
	snapshots := filepath.Join(from, "snapshots")
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case entry.IsDir():
			return os.MkdirAll(target, 0o700)
		case !entry.Type().IsRegular() || entry.Name() == "LOCK":
			return nil // the lock belongs to a running node
		case strings.HasPrefix(path, snapshots+string(filepath.Separator)):
			return link(path, target)
		}
		return copyFile(path, target)
	})
}

func link(path, target string) error {
	whole, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	return os.Symlink(whole, target)
}

func copyFile(path, target string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	out, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// ignoreClosed returns err unless the file was closed already: restoring a snapshot may close it.
func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
