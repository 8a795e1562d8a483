package quotas

import (
	"context"
	"sync"
	"time"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/quota"
)

// Replica is this node's replica of a shard. *shard.Shard implements it.
type Replica interface {
	ID() uint32
	// Lead returns the term of this replica's leadership, once it answers calls. The error is a *task.NotLeaderError or
	// the context's.
	Lead(ctx context.Context) (term uint64, err error)
	// StillLead proves that this replica leads at a time after the call.
	StillLead(ctx context.Context) error
	// Use returns the use of a namespace in the applied state.
	Use(namespace string) task.NamespaceUse
	// Drops returns the number of times that tasks have left with their slots. The number rises no later than Use falls.
	Drops() uint64
	// TaskUse returns the bytes that a task counts with in the applied state, and reports whether it is not done.
	TaskUse(namespace, id string) (bytes int, pending bool)
	// Remembers reports whether a command repeats a call that the applied state remembers, and so changes nothing.
	Remembers(cmd *fsmpb.Command) bool
	// Queues returns the names of a namespace's queues, tombstones included.
	Queues(ctx context.Context, namespace string) ([]string, error)
}

// Replicas are the replicas on this node.
type Replicas interface {
	// Replica returns the replica of a shard. The error is a *task.NotLeaderError if there is none.
	Replica(shard uint32) (Replica, error)
}

// Tenants has the limits of namespaces and keys. *tenants.Tenants implements it.
type Tenants interface {
	Namespace(name string) (n view.Namespace, exists bool)
	KeyLimits(id string) quota.Limits
}

// Control is the control group.
type Control interface {
	State() *clusterpb.ControlState
}

// Nodes are the nodes of the cluster.
type Nodes interface {
	// At returns a node to call, which may be this one.
	At(node string) calls.Node
	// Alive reports whether a node has answered this one lately.
	Alive(node string) bool
}

// Router takes messages to the leaders of shards. *router.Router implements it.
type Router interface {
	// SlotCounts returns the number of slots of each shard.
	SlotCounts() map[uint32]int64
	// QuotaEpoch returns the number of the move that brought the slot of a subject to its owner.
	QuotaEpoch(s quota.Subject) uint64
	// AskOwner asks the leader of the shard that owns the subject of a message.
	AskOwner(ctx context.Context, call *clusterpb.QuotaCall) (*clusterpb.QuotaReply, error)
	// AskShard asks the leader of a shard.
	AskShard(ctx context.Context, shard uint32, call *clusterpb.QuotaCall) (*clusterpb.QuotaReply, error)
}

// Config connects the quotas with the cluster.
type Config struct {
	Self     string // node id
	Replicas Replicas
	Tenants  Tenants
	Control  Control // has the nodes of the cluster, and the policies of the queues
	Nodes    Nodes
	Router   Router
	Trip     time.Duration // longest wait for the answer of another node
}

// Quotas is a node's part in the quotas. Its methods are safe for concurrent use.
type Quotas struct {
	carrier *carrier
	limiter *quota.Limiter
	roster  *quota.Roster

	mu     sync.Mutex
	owners map[ownerID]*owner
	levels map[levelID]*holding
}

// New returns a node's part in the quotas.
func New(cfg Config) *Quotas {
	carrier := &carrier{cfg}
	return &Quotas{
		carrier: carrier, limiter: quota.NewLimiter(carrier, cfg.Trip), roster: quota.NewRoster(carrier),
		owners: map[ownerID]*owner{}, levels: map[levelID]*holding{},
	}
}

// limits returns the limits of a namespace.
func (q *Quotas) limits(namespace string) quota.Limits {
	known, _ := q.carrier.Tenants.Namespace(namespace)
	return quota.Limits(known.Quotas)
}

// each calls do for the namespace and the key of a call until one returns an error. It skips an empty namespace or key.
func (q *Quotas) each(namespace, key string, do func(quota.Subject, quota.Limits) error) error {
	if namespace != "" {
		if err := do(quota.Subject{Namespace: namespace}, q.limits(namespace)); err != nil {
			return err
		}
	}
	if key == "" {
		return nil
	}
	return do(quota.Subject{Key: key}, q.carrier.Tenants.KeyLimits(key))
}

// Call admits a request before it is read. The error is a *quota.Exceeded or the context's.
func (q *Quotas) Call(ctx context.Context, namespace, key string) error {
	return q.each(namespace, key, func(s quota.Subject, l quota.Limits) error {
		return q.limiter.Take(ctx, s, quota.CallsPerSecond, l.CallsPerSecond)
	})
}

// Schedule admits a call that may make a task. The errors are those of Call.
func (q *Quotas) Schedule(ctx context.Context, namespace, key string) error {
	return q.each(namespace, key, func(s quota.Subject, l quota.Limits) error {
		return q.limiter.Take(ctx, s, quota.SchedulesPerSecond, l.SchedulesPerSecond)
	})
}

// ScheduleLines waits until n lines of a batch may make tasks. The error is the context's.
func (q *Quotas) ScheduleLines(ctx context.Context, namespace, key string, n int) error {
	return q.each(namespace, key, func(s quota.Subject, l quota.Limits) error {
		return q.limiter.Wait(ctx, s, quota.SchedulesPerSecond, l.SchedulesPerSecond, n)
	})
}

// Payload returns a *quota.Exceeded for a payload over the limit.
func (q *Quotas) Payload(namespace, key string, bytes int64) error {
	return q.each(namespace, key, func(s quota.Subject, l quota.Limits) error { return l.CheckPayload(s, bytes) })
}

// Queue admits a queue into which a task is put. The error is a *quota.Exceeded, or wraps task.ErrNotProposed if the
// queue is new and the owner cannot be asked.
func (q *Quotas) Queue(ctx context.Context, namespace, queue string) error {
	limit := q.limits(namespace).MaxQueues
	if limit == 0 {
		return nil
	}
	return refusal(q.roster.Admit(ctx, namespace, queue, uint64(limit)))
}

// Policy is Queue for a policy that is put. It asks the owner each time, as the queue may have been deleted since.
func (q *Quotas) Policy(ctx context.Context, namespace, queue string) error {
	q.roster.Forget(namespace, queue)
	return q.Queue(ctx, namespace, queue)
}

// Consumer admits a lease that waits, or a stream, until leave is called. The error is a *quota.Exceeded, or wraps
// task.ErrNotProposed if the owner cannot be asked. Consumers count without a limit, too, for a limit that comes.
func (q *Quotas) Consumer(ctx context.Context, namespace, key string) (leave func(), err error) {
	var held claimed
	err = q.each(namespace, key, func(s quota.Subject, l quota.Limits) error {
		level := q.consumers(quota.LimitKey{Subject: s, Quota: quota.MaxConsumers})
		return held.claim(ctx, level, uint64(l.MaxConsumers), 1)
	})
	if err != nil {
		held.release()
		return nil, err
	}
	return held.release, nil
}
