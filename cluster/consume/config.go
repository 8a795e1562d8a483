package consume

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/leaders"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// Stream is the asking end of the Pull call.
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

// Config names the shards and nodes to ask, and the bounds.
type Config struct {
	Self string // node id
	// State is the control group's; its shards are asked for tasks, and its nodes for what came to them.
	State func() *clusterpb.ControlState
	// Local begins a demand at a shard's leader, if that is here.
	Local func(shard uint32, req task.LeaseRequest, c desk.Consumer) (Demand, error)
	// Open begins a stream to another node, which ends with ctx. It must fail soon if the node cannot be reached.
	Open func(ctx context.Context, node string) (Stream, error)
	// Arrived asks another node which leases of a shard came to it; see Consumers.ArrivedHere.
	Arrived func(ctx context.Context, node string, shard uint32, fences []uint64) (desk.Arrivals, error)
	Leaders leaders.Source
	Alive   func(node string) bool // a hint; nil: everybody
	// Do carries out commands; tasks are released by it.
	Do func(ctx context.Context, cmds []*fsmpb.Command) []task.Reply

	MaxWaiting int           // consumers that wait at once; 0: 100 000
	Linger     time.Duration // shortest time that a task without a consumer is kept; 0: 10 ms
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

const (
	defaultMaxWaiting = 100_000
	defaultLinger     = 10 * time.Millisecond
	// maxLinger is the longest time that a task without a consumer is kept, if consumers usually come back by then.
	maxLinger = 150 * time.Millisecond
	// calmAfter is how long a pool asks on when nobody waits any more: a consumer that has nothing else to do is back by
	// then. idleLife is how long its demands, which ask for nothing, stand after that.
	calmAfter = time.Millisecond
	idleLife  = time.Second
	// hintLife is how long a shard that said that more is waiting has to deliver. Then it is as good as any other.
	hintLife = 20 * time.Millisecond
	// releaseWithin bounds one release of surplus: later, the leases end by themselves.
	releaseWithin = 5 * time.Second
	// drainWithin is how long Close waits for tasks on their way.
	drainWithin = 250 * time.Millisecond

	maxAnswerBytes = 8 << 20  // of the tasks that one consumer gets at once; one task may go over it
	maxBufferBytes = 64 << 20 // of the tasks that lie here without a consumer
	maxOutboxBytes = 64 << 20 // of the tasks that wait to be sent on one stream
	messageBytes   = 1 << 20  // of one message; one answer may go over it
)

func (c Config) withDefaults() Config {
	if c.MaxWaiting == 0 {
		c.MaxWaiting = defaultMaxWaiting
	}
	if c.Linger == 0 {
		c.Linger = defaultLinger
	}
	if c.Alive == nil {
		c.Alive = func(string) bool { return true }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
