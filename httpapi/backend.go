package httpapi

import (
	"context"
	"io"
	"time"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Backend carries out calls, wherever in the cluster their tasks live. Its methods may be called concurrently. Errors
// are package task's, or a context's.
type Backend interface {
	Keys
	Namespaces
	Calendars
	Outlooks
	Bulk

	// Do carries out commands and returns a reply for each, in order. Commands about one id are applied in the given
	// order. Once one of them is refused with task.ErrOverloaded, the later ones about that id are refused too.
	//
	// Do writes into the commands the values that only the shard's leader decides (until when a tombstone is kept), and
	// nothing else. It may still be sending commands after it returned, so the caller must not change them any more. The
	// caller may pass to Do again only the commands that it refused with task.ErrOverloaded.
	Do(ctx context.Context, commands []*fsmpb.Command) []task.Reply

	// Get reads a task, tombstones included, and returns nil without an error if there is none. The read is linearizable,
	// unless stale asks for the nearest replica's state.
	Get(ctx context.Context, namespace, id string, stale bool) (*fsmpb.Task, error)

	// List reads one page of tasks over all slots. The page is bounded in bytes as well as in tasks.
	List(ctx context.Context, query *fsmpb.ListQuery) (*fsmpb.ListPage, error)

	// Lease leases due tasks of a queue's pull lane to a consumer, from all shards: at most the request's Max, within a
	// bound on their total bytes (a single task always fits). Lease waits for the first task. When the context ends, it
	// returns the tasks granted so far, or none, without an error. With the request's Look it returns no tasks as soon as
	// every shard's leader has none. The caller settles or releases each task, or lets its lease end.
	Lease(ctx context.Context, request task.LeaseRequest) ([]*fsmpb.Task, error)

	// ReceiptKey returns the secret under which all nodes of the cluster sign the receipts of leases. It is empty until
	// the node knows the cluster's state.
	ReceiptKey() []byte

	// PutQueue replaces a queue's policy. It returns once every reachable leader applies the policy, or after a second.
	PutQueue(ctx context.Context, policy *fsmpb.QueuePolicy) (created bool, err error)

	// UpdateQueue replaces a queue's policy by the result of change, and returns it when PutQueue would return. change
	// gets the present policy, nil for none, and must not write to it. change may run more than once, so that no
	// concurrent update is lost. An error of change ends the call.
	UpdateQueue(ctx context.Context, namespace, queue string,
		change func(current *fsmpb.QueuePolicy) (*fsmpb.QueuePolicy, error)) (*fsmpb.QueuePolicy, error)

	// DeleteQueue deletes a queue's policy. The queue's tasks stay, under the default policy.
	DeleteQueue(ctx context.Context, namespace, queue string) (existed bool, err error)

	// Queue returns a queue's policy, nil if it has none, and its counts, summed over the shards.
	Queue(ctx context.Context, namespace, queue string) (*fsmpb.QueuePolicy, *fsmpb.QueueCounts, error)

	// Queues returns the queues that have a policy or a task, tombstones included, sorted by name.
	Queues(ctx context.Context, namespace string) ([]task.Queue, error)

	// Backup writes a backup of the cluster to w, at rate bytes a second at most; 0: no limit. An error before the first
	// byte is package task's.
	Backup(ctx context.Context, w io.Writer, rate int64) (BackupSummary, error)

	// NewJoinToken makes a one-time token by which one new node may join the cluster within its life.
	NewJoinToken(ctx context.Context, life time.Duration) (view.NewJoinToken, error)

	// JoinTokens returns the one-time tokens that this node knows, by id.
	JoinTokens() []view.JoinToken

	// RemoveJoinToken removes a one-time token.
	RemoveJoinToken(ctx context.Context, id string) (existed bool, err error)

	// Cluster returns this node's view of the cluster's nodes and shards.
	Cluster(ctx context.Context) (view.Cluster, error)

	// Begin begins an operation and returns it, or returns the plan of a preview. It returns an operation that has the
	// request's id, or an equal one that is under way, instead.
	Begin(ctx context.Context, r OperationRequest) (*view.Operation, *view.Plan, error)

	// Doctor returns the troubles of the cluster, the gravest first. It also works without a quorum.
	Doctor(ctx context.Context) []view.Finding

	// Self returns the id of this node's cluster, empty if it has none yet, and the node's id.
	Self() (clusterID, nodeID string)

	// Map returns this node's present view of slots, leaders and addresses, without the Namespace. It asks no other node.
	Map() view.Map

	// MapVersion returns a name for this node's present view of slots, leaders and addresses. A different view has a
	// different name. Each batch calls it.
	MapVersion() string

	// Ready returns nil once this node knows the map and its replicas have caught up once, or else an error that names the
	// missing part.
	Ready() error
}

// normalise replaces nil lists by empty ones, so that they are [] in JSON and not null.
func normalise(v *view.Cluster) {
	v.Control.Voters, v.Nodes, v.Shards = orEmpty(v.Control.Voters), orEmpty(v.Nodes), orEmpty(v.Shards)
	v.Operations, v.SlotMoves = orEmpty(v.Operations), orEmpty(v.SlotMoves)
	for i := range v.Operations {
		v.Operations[i].Waits = orEmpty(v.Operations[i].Waits)
	}
	for i := range v.Shards {
		s := &v.Shards[i]
		s.Replicas, s.Target, s.Slots = orEmpty(s.Replicas), orEmpty(s.Target), orEmpty(s.Slots)
	}
}

// orEmpty returns a list, which is empty instead of nil.
func orEmpty[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

// OperationRequest is what an operator asks of the cluster.
type OperationRequest struct {
	ID          string // of the operation, if the call has an idempotency key; empty: a new one
	Kind        string // drain, rest, resume, remove, replace, replication, split, move_slots, balance or keep_slots
	Node        string // id or name, if Kind is about a node
	Replication uint32 // replication factor, if Kind is replication
	Shard       uint32 // shard to split, if Kind is split
	// To is the shard that gets the slots if Kind is move_slots, and the number of shards if Kind is balance; 0: as many
	// as there are.
	To      uint32
	Slots   view.SlotList // if Kind is move_slots
	Preview bool          // nothing begins
}
