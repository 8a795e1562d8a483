package recovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/membership"
	"github.com/belfryhq/belfry/cluster/internal/witness"
	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/raftgroup/logstore"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
	"github.com/belfryhq/belfry/shard"
)

// controlNumber is the number of the control group among the Raft groups.
const controlNumber = 0

// Made names a new cluster and its only node.
type Made struct {
	ClusterID string `json:"cluster_id"`
	NodeID    string `json:"node_id"`
}

// newFolder is the data folder of the only node of a new cluster, while it is written.
type newFolder struct {
	Made
	dir    string
	id     *membership.Identity
	kind   logstore.Kind
	logger *slog.Logger
}

// begin marks a folder, which must be empty or absent, or left by a restore or a recovery that was not finished. The
// caller must close its id.
func begin(dir string, kind logstore.Kind, logger *slog.Logger) (*newFolder, error) {
	id, err := membership.BeginRestore(dir)
	if err != nil {
		return nil, err
	}
	made := Made{ClusterID: membership.NewID(), NodeID: id.NodeID()}
	return &newFolder{Made: made, dir: dir, id: id, kind: kind, logger: logger}, nil
}

// write writes everything, and removes the mark at the end. shardOf returns the state of a shard. The new node
// registers itself in the control state when it starts.
func (f *newFolder) write(ctx context.Context, state *clusterpb.ControlState,
	shardOf func(number uint32) (*fsm.Machine, error)) error {
	if err := f.writeAll(ctx, state, shardOf); err != nil {
		return fmt.Errorf("data folder %s: %w", f.dir, err)
	}
	return nil
}

func (f *newFolder) writeAll(ctx context.Context, state *clusterpb.ControlState,
	shardOf func(number uint32) (*fsm.Machine, error)) error {
	promise := membership.Promise{ClusterID: f.ClusterID, Nodes: []string{f.NodeID}}
	err := errors.Join(f.id.Give(promise), f.id.Enter(f.ClusterID))
	if err == nil {
		err = f.writeWitness()
	}
	if err == nil {
		err = f.writeGroup(controlNumber, func(to io.Writer) error { return control.WriteSnapshot(to, state) })
	}
	if err != nil {
		return err
	}
	for _, s := range state.Shards {
		if err := ctx.Err(); err != nil {
			return err
		}
		machine, err := shardOf(s.Id)
		if err == nil {
			err = f.writeGroup(s.Id, func(to io.Writer) error {
				return shard.WriteSnapshot(to, machine, raftdisk.SeedIndex, raftdisk.SeedTerm)
			})
		}
		if err != nil {
			return fmt.Errorf("shard %d: %w", s.Id, err)
		}
	}
	return f.id.Restored()
}

// writeWitness makes the node's empty table of other nodes.
func (f *newFolder) writeWitness() error {
	var failed error
	table, err := witness.Open(witness.Config{
		Dir: f.dir, Node: f.NodeID, New: true, Fatal: func(err error) { failed = err },
	})
	if err != nil {
		return err
	}
	return errors.Join(table.Close(), failed)
}

// writeGroup writes the files of one Raft group, whose state write writes.
func (f *newFolder) writeGroup(number uint32, write func(io.Writer) error) error {
	var failed error
	cfg := raftdisk.Config{
		Dir: f.id.GroupDir(number), Kind: f.kind,
		Owner:  &raftdisk.Owner{Cluster: f.ClusterID, Node: f.NodeID, Group: number},
		Logger: f.logger, Fatal: func(err error) { failed = err },
	}
	open := func(cfg raftdisk.Config) (*raftdisk.Disk, error) { return shard.OpenDisk(number, cfg) }
	if number == controlNumber {
		open = control.OpenDisk
	}
	files, err := open(cfg)
	if err != nil {
		return err
	}
	if err := errors.Join(files.Seed(f.NodeID, write), files.Close(), failed); err != nil {
		return err
	}
	return f.id.RecordOpened(number, 0)
}
