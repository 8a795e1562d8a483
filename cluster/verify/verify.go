package verify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/belfryhq/belfry/cluster/internal/identity"
	"github.com/belfryhq/belfry/cluster/internal/witness"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
)

// Report describes the content of a data folder.
type Report struct {
	NodeID    string  `json:"node_id"`
	ClusterID string  `json:"cluster_id"` // empty: the node is in no cluster yet
	Groups    []Group `json:"groups"`     // the control group, whose number is 0, and the shards, by number

	Problems []string `json:"problems"` // of the folder as a whole
	Remarks  []string `json:"remarks"`  // findings that are no damage
}

// Group is one Raft group's part of the report.
type Group struct {
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
func (r *Report) Sound() bool {
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

// Folder inspects a data folder. It makes copies in the folder temp, one group at a time; empty: the system's temporary
// folder. It returns an error if the folder cannot be inspected; damage stands in the report.
func Folder(ctx context.Context, dir, temp string) (report *Report, err error) {
	f, err := Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	report = &Report{
		NodeID: f.id.NodeID(), ClusterID: f.id.ClusterID(), Problems: []string{}, Remarks: remarks(f.id),
	}
	if f.fault != nil {
		report.Problems = append(report.Problems, f.fault.Error())
	}
	for _, number := range f.Groups() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		replayed, err := f.Replay(number, temp)
		if err != nil {
			return nil, err
		}
		report.Groups = append(report.Groups, replayed.Group)
	}
	return report, nil
}

// foreign returns an error if a group's folder is marked as another group's, node's or cluster's.
func foreign(id *identity.Identity, number uint32) error {
	dir := id.GroupDir(number)
	logDir := filepath.Join(dir, "log")
	if number == 0 {
		logDir = dir
	}
	return raftdisk.Owner{Cluster: id.ClusterID(), Node: id.NodeID(), Group: number}.Check(dir, logDir)
}

// remarks returns the facts about a folder that only other nodes can judge.
func remarks(id *identity.Identity) []string {
	if id.ClusterID() == "" {
		return []string{}
	}
	all := []string{"whether this is the newest copy of the node's folder only the other nodes can tell: they are asked " +
		"when the node starts"}
	if id.Copied() {
		all = append(all, "the folder is not where it was when the node last ran, as after a copy: the node will take part "+
			"once every other voter has answered")
	}
	return all
}

// lookAt inspects one group, on a copy of the files that opening it would change. complete adds to the copy the
// acknowledged entries that only the node's journal holds, as after a loss of power.
func lookAt(dir string, number uint32, kept witness.Position, temp string,
	complete func(copied string) error) (_ *look, err error) {
	scratch, err := os.MkdirTemp(temp, "belfry-verify-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	l := &look{Group: Group{Number: number, Problems: []string{}}, state: stateOf(number)}
	if _, err := os.Stat(dir); err != nil {
		l.wrong("the group has lived here, and its folder is gone: %v", err)
		return l, nil
	}
	if err := mirror(dir, scratch); err != nil {
		return nil, fmt.Errorf("making a copy to look at: %w", err)
	}
	if err := complete(scratch); err != nil {
		l.wrong("%v", err)
	}
	l.readSnapshots(scratch)
	l.readLog(scratch)
	if err := kept.Lost(l.Term, max(l.Last, l.Snapshot)); err != nil && len(l.Problems) == 0 {
		l.wrong("log: %v", err)
	}
	l.tell()
	return l, nil
}

func (l *look) wrong(format string, args ...any) {
	l.Problems = append(l.Problems, fmt.Sprintf(format, args...))
}

func stateName(state int32) string {
	return strings.ToLower(strings.TrimPrefix(fsmpb.State_name[state], "STATE_"))
}
