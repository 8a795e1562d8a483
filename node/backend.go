package node

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/doctor"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/httpapi"
)

// backend adapts a node of the cluster to the interface of the HTTP API. Neither package knows the other.
type backend struct{ *cluster.Node }

// List reads through the leaders, so that a list shows all tasks acknowledged before it.
func (b backend) List(ctx context.Context, q *fsmpb.ListQuery) (*fsmpb.ListPage, error) {
	return b.Node.List(ctx, q, false)
}

func (b backend) Self() (clusterID, nodeID string) { return b.ClusterID(), b.ID() }

func (b backend) Backup(ctx context.Context, w io.Writer, rate int64) (httpapi.BackupSummary, error) {
	made, err := b.Node.Backup(ctx, w, rate)
	summary := httpapi.BackupSummary{SHA256: made.SHA256}
	for _, s := range made.Shards {
		summary.Shards = append(summary.Shards, httpapi.BackupShard{Shard: s.Shard, Index: s.Index, CutMs: s.CutMs})
	}
	return summary, err
}

func (b backend) NewJoinToken(ctx context.Context, life time.Duration) (httpapi.NewJoinToken, error) {
	token, made, err := b.Node.NewJoinToken(ctx, life)
	return httpapi.NewJoinToken{JoinToken: joinTokenView(made), Token: token, Required: b.NeedsJoinTokens()}, err
}

func (b backend) JoinTokens() []httpapi.JoinToken {
	var tokens []httpapi.JoinToken
	for _, t := range b.Node.JoinTokens() {
		tokens = append(tokens, joinTokenView(t))
	}
	return tokens
}

func joinTokenView(t cluster.JoinToken) httpapi.JoinToken {
	return httpapi.JoinToken{
		ID: t.ID, Created: t.Created.UTC(), Expires: t.Expires.UTC(),
		UsedBy: t.UsedBy, UsedName: t.UsedName, Used: t.Used.UTC(),
	}
}

func (b backend) Cluster(ctx context.Context) (httpapi.ClusterView, error) {
	v := b.View(ctx)
	view := httpapi.ClusterView{
		ClusterID: v.ClusterID, Map: v.Map, CommandVersion: v.CommandVersion, Backups: backupsView(b.Backups()),
		Replication: httpapi.Replication{Wanted: v.Replication, Fewest: v.Fewest}, Waits: v.Waits,
		Control: httpapi.ControlView{Leader: v.Control.Leader, Term: v.Control.Term, Voters: v.Control.Voters},
	}
	now, _ := b.Now()
	for _, n := range v.Nodes {
		view.Nodes = append(view.Nodes, nodeView(n, now))
	}
	for _, op := range v.Operations {
		view.Operations = append(view.Operations, operationView(op))
	}
	view.Operations = append(view.Operations, bulkViews(v.Bulks)...)
	slices.SortStableFunc(view.Operations, func(a, b httpapi.OperationView) int {
		return cmp.Compare(a.BeganAt, b.BeganAt)
	})
	for _, m := range v.Moves {
		view.SlotMoves = append(view.SlotMoves, httpapi.SlotMoveView{
			Number: m.Number, From: m.From, To: m.To, Slots: m.Slots, State: nameOf(m.State, movePrefix), Step: m.Step,
			Tries: m.Tries, TasksCopied: m.Tasks, BytesCopied: m.Bytes, Sealed: m.Sealed, Waits: m.Waits,
		})
	}
	if split := v.AutoSplit; split != nil {
		view.AutoSplit = &httpapi.AutoSplitView{
			Bytes: split.Bytes, Shards: split.Shards, Outgrown: append([]uint32{}, split.Outgrown...), Waits: split.Waits,
		}
	}
	for _, s := range v.Shards {
		view.Shards = append(view.Shards, shardView(s))
	}
	return view, nil
}

func (b backend) Map() httpapi.MapView {
	m := b.Node.Map()
	view := httpapi.MapView{ClusterID: m.ClusterID, Map: m.Version}
	for _, n := range m.Nodes {
		view.Nodes = append(view.Nodes, httpapi.MapNode{ID: n.ID, HTTPURL: n.URL})
	}
	for _, s := range m.Shards {
		view.Shards = append(view.Shards, httpapi.MapShard{ID: s.ID, Leader: s.Leader, Slots: slotRanges(s.Slots)})
	}
	return view
}

func slotRanges(ranges []cluster.SlotRange) (view []httpapi.SlotRange) {
	for _, r := range ranges {
		view = append(view, httpapi.SlotRange{First: r.First, End: r.End})
	}
	return view
}

func backupsView(b *clusterpb.Backups) *httpapi.BackupsView {
	if b == nil {
		return nil
	}
	return &httpapi.BackupsView{
		Running: backupTry(b.Running), LastKept: backupTry(b.LastKept), LastFailed: backupTry(b.LastFailed),
	}
}

func backupTry(t *clusterpb.BackupTry) *httpapi.BackupTry {
	if t == nil {
		return nil
	}
	return &httpapi.BackupTry{
		Node: t.Node, BegunAt: httpapi.Instant(t.BegunMs), SeenAt: httpapi.Instant(t.SeenMs), Place: t.Place,
		Bytes: t.Bytes, Error: t.Error,
	}
}

func shardView(s cluster.ShardView) httpapi.ShardView {
	view := httpapi.ShardView{ID: s.ID, Leader: s.Leader, Term: s.Term, Tasks: s.Tasks,
		Target: s.Target, Waits: s.Waits, Step: s.Step, Bytes: s.Bytes(), Slots: slotRanges(s.Slots),
	}
	for _, r := range s.Replicas {
		replica := httpapi.ReplicaView{
			Node: r.Node, State: r.State, Applied: r.Applied, Commands: r.Commands, Diverged: r.Diverged,
			Voter: r.Voter,
		}
		if r.Arriving.Size > 0 {
			part := float64(r.Arriving.Received) / float64(r.Arriving.Size)
			replica.Received = &part
		}
		if r.Applied > 0 {
			replica.Hash = fmt.Sprintf("%016x", r.Hash)
		}
		view.Replicas = append(view.Replicas, replica)
	}
	return view
}

func (b backend) Doctor(ctx context.Context) []httpapi.Finding { return findings(b.Node.Doctor(ctx)) }

func findings(found []doctor.Finding) []httpapi.Finding {
	list := make([]httpapi.Finding, 0, len(found))
	for _, f := range found {
		list = append(list, httpapi.Finding{
			Severity: string(f.Severity), Code: string(f.Code), Summary: f.Summary, Do: f.Do})
	}
	return list
}

var _ httpapi.Backend = backend{}
