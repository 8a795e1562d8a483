package consume

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// Stream is the requesting end of the Pull call.
type Stream interface {
	Send(*clusterpb.PullRequest) error
	Recv() (*clusterpb.PullReply, error)
}

// ServerStream is the answering end of the Pull call.
type ServerStream interface {
	Context() context.Context
	Send(*clusterpb.PullReply) error
	Recv() (*clusterpb.PullRequest, error)
}

// Demand is a standing demand at a shard's leader on this node; see desk.Demand.
type Demand interface {
	Set(total, received, look uint64)
	Withdraw()
}

// Config holds the sources of tasks and leaders, and the bounds.
type Config struct {
	Self     string  // node id
	Control  Control // has the shards to get tasks from, and the nodes that Arrived asks
	Replicas Replicas
	Nodes    Nodes
	Leaders  calls.Source
	Router   Router // releases tasks

	MaxWaiting int           // consumers that may wait at once; 0: 100 000
	Linger     time.Duration // shortest time for which a task without a consumer is kept; 0: 10 ms
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Control is the control group.
type Control interface {
	State() *clusterpb.ControlState
}

// Replicas begins a demand at a shard's leader. It fails if that is on another node.
type Replicas interface {
	Lease(shard uint32, req task.LeaseRequest, c desk.Consumer) (Demand, error)
}

// Nodes are the nodes of the cluster.
type Nodes interface {
	// Alive reports whether a node seems alive.
	Alive(node string) bool
	// Pull begins a stream to another node, which ends with ctx. It must fail soon if the node cannot be reached.
	Pull(ctx context.Context, node string) (Stream, error)
	// Arrived asks another node which leases of a shard reached it; see Consumers.ArrivedHere.
	Arrived(ctx context.Context, node string, shard uint32, fences []uint64) (desk.Arrivals, error)
}

// Router carries out commands.
type Router interface {
	Do(ctx context.Context, cmds []*fsmpb.Command) []task.Reply
}

const (
	defaultMaxWaiting = 100_000
	defaultLinger     = 10 * time.Millisecond
	// maxLinger is the longest time for which a task without a consumer is kept, if consumers usually return within it.
	maxLinger = 150 * time.Millisecond
	// calmAfter is how long a pool keeps its demands after its last consumer left: a consumer without other work
	// returns by then. idleLife is the time after which the pool ends them; in between they ask for no tasks.
	calmAfter = time.Millisecond
	idleLife  = time.Second
	// hintLife is how long a shard that reported a backlog has to deliver. Then it counts like any other shard.
	hintLife = 20 * time.Millisecond
	// releaseWithin bounds one release of surplus tasks; the leases of the rest end by themselves.
	releaseWithin = 5 * time.Second
	// drainWithin is how long Close waits for tasks in flight.
	drainWithin = 250 * time.Millisecond

	maxAnswerBytes = 8 << 20  // of the tasks that one consumer gets at once; the last task may exceed it
	maxBufferBytes = 64 << 20 // of the tasks that wait here for a consumer
	maxOutboxBytes = 64 << 20 // of the tasks that wait to be sent on one stream
	messageBytes   = 1 << 20  // of one message; its last answer may exceed it
)

func (c Config) withDefaults() Config {
	if c.MaxWaiting == 0 {
		c.MaxWaiting = defaultMaxWaiting
	}
	if c.Linger == 0 {
		c.Linger = defaultLinger
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
