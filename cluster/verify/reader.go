package verify

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/identity"
	"github.com/belfryhq/belfry/cluster/internal/witness"
	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/raftgroup/journal"
	"github.com/belfryhq/belfry/shard"
)

// Reader is the data folder of a stopped node, open for reading. The node cannot start until Close.
type Reader struct {
	dir     string
	id      *identity.Identity
	pending journal.Writes
	unread  error                       // of the journal
	kept    map[uint32]witness.Position // the node's own record of its replicas
	fault   error                       // of that record
}

// Open opens a data folder for reading.
func Open(dir string) (*Reader, error) {
	id, err := identity.Inspect(dir)
	if err != nil {
		return nil, err
	}
	r := &Reader{dir: dir, id: id}
	r.pending, r.unread = journal.Read(id.JournalDir())
	r.kept, r.fault = witness.Inspect(dir, id.NodeID(), len(id.Groups()) == 0)
	return r, nil
}

// NodeID returns the id of the folder's node.
func (r *Reader) NodeID() string { return r.id.NodeID() }

// ClusterID returns the id of the node's cluster, or "" if it was in none.
func (r *Reader) ClusterID() string { return r.id.ClusterID() }

// Groups returns the groups that have lived in the folder.
func (r *Reader) Groups() []uint32 { return r.id.Groups() }

// Observed returns the node's record of other nodes.
func (r *Reader) Observed() ([]*clusterpb.SeenNode, error) {
	return witness.Observed(r.dir, r.id.NodeID())
}

// Close lets the node start again.
func (r *Reader) Close() error { return r.id.Close() }

// Replayed is a group's replica after the last entry of its log, committed or not.
type Replayed struct {
	Group
	LastIndex, LastTerm uint64    // of the last entry, or of the snapshot if that is newer
	LastAt              time.Time // when the leader appended that entry, by its clock; zero: not known
	Voters              []string  // node ids, by the newest configuration; empty: none is known

	Control *clusterpb.ControlState // of the control group
	Machine *fsm.Machine            // of a shard
}

// Replay reads the replica of a group, and applies its log to the newest snapshot. It makes copies in the folder temp;
// empty: the system's temporary folder. Damage stands in Problems.
func (r *Reader) Replay(number uint32, temp string) (*Replayed, error) {
	at, err := filepath.Rel(r.dir, r.id.GroupDir(number))
	if err != nil {
		return nil, err
	}
	l, err := lookAt(r.id.GroupDir(number), number, r.kept[number], temp, func(copied string) error {
		return errors.Join(r.unread, r.pending.Complete(at, copied))
	})
	if err != nil {
		return nil, fmt.Errorf("group %d: %w", number, err)
	}
	if err := foreign(r.id, number); err != nil {
		l.wrong("%v", err)
	}
	return l.replayed(), nil
}

func (l *look) replayed() *Replayed {
	r := &Replayed{
		Group: l.Group, LastIndex: max(l.Last, l.Snapshot), LastTerm: l.lastTerm, LastAt: l.lastAt, Voters: l.voters,
	}
	switch made := l.made.(type) {
	case *control.Replay:
		r.Control = made.State()
	case *shard.Replay:
		r.Machine = made.Machine()
	}
	return r
}
