package restore

import (
	"errors"
	"io"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/identity"
	"github.com/belfryhq/belfry/cluster/internal/witness"
	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/raftgroup/logstore"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
	"github.com/belfryhq/belfry/shard"
)

// controlNumber is the number of the control group among the Raft groups.
const controlNumber = 0

// write writes the folder of a node that is a cluster by itself, and removes the mark at the end.
func (r *run) write() error {
	r.report.NodeID, r.report.ClusterID = r.id.NodeID(), identity.NewID()
	r.shape()
	promise := identity.Promise{ClusterID: r.report.ClusterID, Nodes: []string{r.report.NodeID}}
	err := errors.Join(r.id.Give(promise), r.id.Enter(r.report.ClusterID))
	if err != nil {
		return err
	}
	if err := r.writeWitness(); err != nil {
		return err
	}
	err = r.writeGroup(controlNumber, func(w io.Writer) error { return control.WriteSnapshot(w, r.state) })
	for i := 0; i < len(r.shards) && err == nil; i++ {
		err = r.writeGroup(uint32(i+1), func(w io.Writer) error {
			return shard.WriteSnapshot(w, r.shards[i], raftdisk.SeedIndex, raftdisk.SeedTerm)
		})
	}
	if err != nil {
		return err
	}
	return r.id.Restored()
}

// shape makes the control state that of a cluster of this node, with the queues and the replication factor of the old
// one. The node registers itself when it starts. Builds that cannot read rebuilt shards are kept out.
func (r *run) shape() {
	old := r.state
	r.state = &clusterpb.ControlState{
		ClusterId: r.report.ClusterID, CommandVersion: fsm.CommandVersion, Version: fsm.CommandVersion,
		Queues: old.Queues, Calendars: old.Calendars, QueuesVersion: old.QueuesVersion, Replication: old.Replication,
		LastSlotMove: old.LastSlotMove, // the shards may remember moves
		// The callers of the old cluster are those of the new one, and a restore opens nothing that was closed.
		ApiKeys: old.ApiKeys, KeysInForce: old.KeysInForce, Namespaces: old.Namespaces, AccessVersion: old.AccessVersion,
		ClusterKey: old.ClusterKey, ReceiptKey: old.ReceiptKey,
	}
	for i, slots := range r.ranges {
		id := uint32(i + 1)
		r.state.Slots = append(r.state.Slots, &clusterpb.SlotRange{First: slots.First, End: slots.End, Shard: id})
		r.state.Shards = append(r.state.Shards, &clusterpb.Shard{
			Id: id, Replicas: []string{r.report.NodeID}, Preferred: r.report.NodeID,
		})
	}
}

// writeWitness makes the node's empty table of other nodes.
func (r *run) writeWitness() error {
	var failed error
	table, err := witness.Open(witness.Config{
		Dir: r.cfg.Dir, Node: r.report.NodeID, New: true, Fatal: func(err error) { failed = err },
	})
	if err != nil {
		return err
	}
	return errors.Join(table.Close(), failed)
}

// writeGroup writes the files of one Raft group, whose state write writes.
func (r *run) writeGroup(number uint32, write func(io.Writer) error) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	var failed error
	cfg := raftdisk.Config{
		Dir: r.id.GroupDir(number), Kind: logstore.Kind(r.cfg.LogStore),
		Owner:  &raftdisk.Owner{Cluster: r.report.ClusterID, Node: r.report.NodeID, Group: number},
		Logger: r.cfg.Logger, Fatal: func(err error) { failed = err },
	}
	var files *raftdisk.Disk
	var err error
	if number == controlNumber {
		files, err = control.OpenDisk(cfg)
	} else {
		files, err = shard.OpenDisk(number, cfg)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(files.Seed(r.report.NodeID, write), files.Close(), failed); err != nil {
		return err
	}
	return r.id.RecordOpened(number, 0)
}
