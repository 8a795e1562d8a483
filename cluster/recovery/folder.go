package recovery

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/belfryhq/belfry/cluster/internal/membership"
	"github.com/belfryhq/belfry/cluster/internal/witness"
	"github.com/belfryhq/belfry/raftgroup/journal"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
)

// FolderReport describes the content of a data folder.
type FolderReport struct {
	NodeID    string    `json:"node_id"`
	ClusterID string    `json:"cluster_id"` // empty: the node is in no cluster yet
	Groups    []Replica `json:"groups"`     // of the control group, whose number is 0, and the shards, by number

	Problems []string `json:"problems"` // of the folder as a whole
	Remarks  []string `json:"remarks"`  // findings that are no damage
}

// Replica describes one Raft group's files in a data folder.
type Replica struct {
	Number uint32 `json:"shard"` // 0: the control group
	Term   uint64 `json:"term"`
	First  uint64 `json:"first_index"` // of the log; 0: it is empty
	Last   uint64 `json:"last_index"`

	Snapshot uint64 `json:"snapshot_index"` // of the newest whole snapshot; 0: there is none

	// For a shard: the state after the last entry.
	Applied  uint64         `json:"applied"`
	Commands uint64         `json:"commands"`
	Hash     string         `json:"hash"`
	Tasks    map[string]int `json:"tasks"` // by state

	Problems []string `json:"problems"`
}

// Sound reports whether no problem was found.
func (r *FolderReport) Sound() bool {
	if len(r.Problems) > 0 {
		return false
	}
	for _, g := range r.Groups {
		if len(g.Problems) > 0 {
			return false
		}
	}
	return true
}

// VerifyFolder inspects a data folder. It makes copies in the folder temp, one group at a time; empty: the system's
// temporary folder. It returns an error if the folder cannot be inspected; damage stands in the report.
func VerifyFolder(ctx context.Context, dir, temp string) (report *FolderReport, err error) {
	f, err := openFolder(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.id.Close()) }()
	report = &FolderReport{
		NodeID: f.id.NodeID(), ClusterID: f.id.ClusterID(), Problems: []string{}, Remarks: f.remarks(),
	}
	if f.fault != nil {
		report.Problems = append(report.Problems, f.fault.Error())
	}
	for _, number := range f.id.Groups() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r, err := f.replay(number, temp)
		if err != nil {
			return nil, err
		}
		report.Groups = append(report.Groups, r.Replica)
	}
	return report, nil
}

// folder is the data folder of a stopped node, open for reading. The node cannot start until id is closed.
type folder struct {
	dir     string
	id      *membership.Identity
	pending journal.Writes
	unread  error                       // of the journal
	kept    map[uint32]witness.Position // the node's own record of its replicas
	fault   error                       // of that record
}

func openFolder(dir string) (*folder, error) {
	id, err := membership.InspectIdentity(dir)
	if err != nil {
		return nil, err
	}
	f := &folder{dir: dir, id: id}
	f.pending, f.unread = journal.Read(id.JournalDir())
	f.kept, f.fault = witness.Inspect(dir, id.NodeID(), len(id.Groups()) == 0)
	return f, nil
}

// remarks returns the facts about a folder that only other nodes can judge.
func (f *folder) remarks() []string {
	if f.id.ClusterID() == "" {
		return []string{}
	}
	all := []string{"whether this is the newest copy of the node's folder only the other nodes can tell: they are asked " +
		"when the node starts"}
	if f.id.Copied() {
		all = append(all, "the folder is not where it was when the node last ran, as after a copy: the node will take part "+
			"once every other voter has answered")
	}
	return all
}

// replay reads the replica of a group, and applies its log to the newest snapshot. It makes copies in the folder temp;
// empty: the system's temporary folder. Damage stands in Problems.
func (f *folder) replay(number uint32, temp string) (*replica, error) {
	dir := f.id.GroupDir(number)
	at, err := filepath.Rel(f.dir, dir)
	if err != nil {
		return nil, err
	}
	r, err := readReplica(dir, number, f.kept[number], temp, func(copied string) error {
		return errors.Join(f.unread, f.pending.Complete(at, copied))
	})
	if err != nil {
		return nil, fmt.Errorf("group %d: %w", number, err)
	}
	owner := raftdisk.Owner{Cluster: f.id.ClusterID(), Node: f.id.NodeID(), Group: number}
	if err := owner.Check(dir, logDir(dir, number)); err != nil {
		r.wrong("%v", err)
	}
	return r, nil
}
