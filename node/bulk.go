package node

import (
	"context"
	"math"
	"strings"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/httpapi"
)

// The beginnings of the names of bulk operations' kinds and outcomes in the messages.
const (
	bulkPrefix    = "BULK_KIND_"
	outcomePrefix = "BULK_OUTCOME_"
)

func (b backend) BeginBulk(ctx context.Context, r httpapi.BulkRequest) (*httpapi.OperationView, error) {
	return bulkAnswer(b.Node.BeginBulk(ctx, bulkOf(r)))
}

func (b backend) StopBulk(ctx context.Context, id string) (*httpapi.OperationView, error) {
	return bulkAnswer(b.Node.StopBulk(ctx, id))
}

func (b backend) CountBulk(ctx context.Context, r httpapi.BulkRequest) (matched uint64, all bool, err error) {
	matched, all, err = b.Node.CountBulk(ctx, bulkOf(r))
	return matched, all, refusal(err)
}

func bulkAnswer(op cluster.BulkView, err error) (*httpapi.OperationView, error) {
	if err != nil {
		return nil, refusal(err)
	}
	view := bulkView(op)
	return &view, nil
}

// bulkOf returns the operation that a request asks for.
func bulkOf(r httpapi.BulkRequest) *clusterpb.BulkOperation {
	return &clusterpb.BulkOperation{
		Id: r.ID, Kind: clusterpb.BulkKind(clusterpb.BulkKind_value[bulkPrefix+strings.ToUpper(r.Op)]),
		Namespace: r.Namespace, Filter: r.Filter, All: r.All, ByMs: r.ByMs, ToMs: r.ToMs, Patch: r.Patch,
		PerSecond: r.PerSecond, Call: r.Call,
	}
}

func bulkViews(ops []cluster.BulkView) (views []httpapi.OperationView) {
	for _, op := range ops {
		views = append(views, bulkView(op))
	}
	return views
}

func bulkView(op cluster.BulkView) httpapi.OperationView {
	view := httpapi.OperationView{
		ID: op.Id, Kind: httpapi.BulkKind, Namespace: op.Namespace, State: nameOf(op.State, statePrefix),
		BeganAt: httpapi.Instant(op.BeganMs), EndedAt: instantOf(op.EndedMs), Detail: op.Detail, Percent: op.Percent,
		Total: uint32(min(op.Matched, math.MaxUint32)), Done: uint32(min(op.Done, math.MaxUint32)),
		BulkView: &httpapi.BulkView{
			Op: nameOf(op.Kind, bulkPrefix), Filter: httpapi.BulkFilterOf(op.Filter), All: op.All,
			By: httpapi.BulkBy(op.ByMs), FireAt: instantOf(op.ToMs), Patched: httpapi.PatchedBy(op.Patch),
			PerSecond: op.PerSecond, Matched: op.Matched, Outcomes: make(map[string]uint64), Call: op.Call,
		},
	}
	if op.Waits != "" {
		view.Waits = []string{op.Waits}
	}
	for _, c := range op.Outcomes {
		view.Outcomes[nameOf(c.Outcome, outcomePrefix)] = c.Tasks
	}
	return view
}

// instantOf returns an instant of an answer, or nil for 0.
func instantOf(ms int64) *httpapi.Instant {
	if ms == 0 {
		return nil
	}
	at := httpapi.Instant(ms)
	return &at
}
