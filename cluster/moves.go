package cluster

import (
	"context"
	"fmt"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/health"
	"github.com/belfryhq/belfry/cluster/router"
)

// moves is the reconciler's way to the replicas of all nodes.
type moves struct {
	router *router.Router
	viewer *viewer
	health *health.Nodes
	leader func(shard uint32) string
}

var _ control.Shards = moves{}

// Members makes a change of a shard's membership at its leader.
func (m moves) Members(
	ctx context.Context, shard uint32, ask *clusterpb.MembersCall,
) (*clusterpb.Membership, error) {
	return m.router.Members(ctx, shard, ask)
}

// Applied asks a node for the last entry that its replica of a shard has applied.
func (m moves) Applied(ctx context.Context, node string, shard uint32) (uint64, error) {
	reply, err := m.viewer.askStatus(ctx, node)
	if err != nil {
		return 0, err
	}
	for _, r := range reply.Replicas {
		if r.Shard == shard {
			return r.Applied, nil
		}
	}
	return 0, fmt.Errorf("node %s has no replica of shard %d yet", node, shard)
}

// Leader returns the believed leader of a shard, or "" if none.
func (m moves) Leader(shard uint32) string { return m.leader(shard) }

// Fit reports whether a node's replica of a shard is fit to lead.
func (m moves) Fit(shard uint32, node string) bool { return m.health.MayLead(shard, node) }

// Up reports whether a node has answered within the last seconds.
func (m moves) Up(node string) bool { return m.health.Alive(node) }

// Faults asks all nodes for replicas that are outvoted or cannot be opened.
func (m moves) Faults(ctx context.Context) []control.Fault {
	var faults []control.Fault
	for node, account := range m.accounts(ctx) {
		for shard, r := range account.replicas {
			if r.Outvoted {
				faults = append(faults, control.Fault{Shard: shard, Node: node, Reason: "its state differs from the others'"})
			}
		}
		for shard, reason := range account.broken {
			faults = append(faults, control.Fault{Shard: shard, Node: node, Reason: reason})
		}
	}
	return faults
}

// Commands asks all nodes for the number of commands that each shard has applied in its life.
func (m moves) Commands(ctx context.Context) map[uint32]uint64 {
	most := make(map[uint32]uint64)
	for _, account := range m.accounts(ctx) {
		for shard, r := range account.replicas {
			most[shard] = max(most[shard], r.Commands)
		}
	}
	return most
}

// accounts asks all nodes for their accounts. A node without an answer is left out.
func (m moves) accounts(ctx context.Context) map[string]*account {
	accounts, _ := m.viewer.askAll(ctx, nodesOf(m.viewer.control.State()))
	return accounts
}
