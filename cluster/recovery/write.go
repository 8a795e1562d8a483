package recovery

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/identity"
	"github.com/belfryhq/belfry/cluster/internal/witness"
	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
	"github.com/belfryhq/belfry/shard"
)

// skipped is added to each shard's counter. It is more than the lost nodes can have given numbers, at a million a
// second for twelve days, and a small part of all numbers.
const skipped = 1 << 40

// Made is the new cluster.
type Made struct {
	ClusterID string `json:"cluster_id"`
	NodeID    string `json:"node_id"`
}

// Write writes the folder of the new cluster's node, which must be empty or absent, or left by a recovery that was not
// finished. After an error the folder holds no node's data. Write may be called again.
func (r *Recovery) Write(ctx context.Context, dir string) (made Made, err error) {
	id, err := identity.BeginRestore(dir)
	if err != nil {
		return Made{}, err
	}
	defer func() { err = errors.Join(err, id.Close()) }()
	w := &writer{Recovery: r, id: id, dir: dir, made: Made{ClusterID: identity.NewID(), NodeID: id.NodeID()}}
	if err := w.write(ctx); err != nil {
		return Made{}, fmt.Errorf("data folder %s: %w", dir, err)
	}
	return w.made, nil
}

// writer writes one folder.
type writer struct {
	*Recovery
	id   *identity.Identity
	dir  string
	made Made
}

// write writes everything, and removes the mark at the end.
func (w *writer) write(ctx context.Context) error {
	promise := identity.Promise{ClusterID: w.made.ClusterID, Nodes: []string{w.made.NodeID}}
	if err := errors.Join(w.id.Give(promise), w.id.Enter(w.made.ClusterID)); err != nil {
		return err
	}
	if err := w.writeWitness(); err != nil {
		return err
	}
	state := w.shape()
	err := w.writeGroup(controlNumber, func(to io.Writer) error { return control.WriteSnapshot(to, state) })
	if err != nil {
		return err
	}
	for _, s := range state.Shards {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.writeShard(s.Id); err != nil {
			return fmt.Errorf("shard %d: %w", s.Id, err)
		}
	}
	return w.id.Restored()
}

// shape returns the control state with the new node in the place of all others. The node registers itself when it
// starts.
func (w *writer) shape() *clusterpb.ControlState {
	state := proto.CloneOf(w.control)
	state.ClusterId = w.made.ClusterID
	state.Nodes, state.Orders, state.Operations, state.Backups, state.JoinTokens = nil, nil, nil, nil, nil
	state.Bulks = nil // their walks do not fit the tasks of older replicas
	for _, s := range state.Shards {
		s.Replicas, s.Preferred, s.Target, s.Joined = []string{w.made.NodeID}, w.made.NodeID, nil, nil
	}
	return state
}

// writeWitness makes the node's empty table of other nodes.
func (w *writer) writeWitness() error {
	var failed error
	table, err := witness.Open(witness.Config{
		Dir: w.dir, Node: w.made.NodeID, New: true, Fatal: func(err error) { failed = err },
	})
	if err != nil {
		return err
	}
	return errors.Join(table.Close(), failed)
}

// writeShard writes the newest replica of a shard, or an empty one if there is none.
func (w *writer) writeShard(number uint32) error {
	machine := fsm.New(number)
	if c, found := w.newest[number]; found {
		replayed, err := w.replay(c.dir, number)
		if err != nil {
			return err
		}
		machine = replayed.Machine
	}
	machine.SkipNumbers(skipped)
	return w.writeGroup(number, func(to io.Writer) error {
		return shard.WriteSnapshot(to, machine, raftdisk.SeedIndex, raftdisk.SeedTerm)
	})
}

// writeGroup writes the files of one Raft group, whose state write writes.
func (w *writer) writeGroup(number uint32, write func(io.Writer) error) error {
	var failed error
	cfg := raftdisk.Config{
		Dir: w.id.GroupDir(number), Kind: w.kind,
		Owner:  &raftdisk.Owner{Cluster: w.made.ClusterID, Node: w.made.NodeID, Group: number},
		Logger: w.cfg.Logger, Fatal: func(err error) { failed = err },
	}
	open := func(cfg raftdisk.Config) (*raftdisk.Disk, error) { return shard.OpenDisk(number, cfg) }
	if number == controlNumber {
		open = control.OpenDisk
	}
	files, err := open(cfg)
	if err != nil {
		return err
	}
	if err := errors.Join(files.Seed(w.made.NodeID, write), files.Close(), failed); err != nil {
		return err
	}
	return w.id.RecordOpened(number, 0)
}
