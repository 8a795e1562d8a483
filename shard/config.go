package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/tracing"
	"github.com/belfryhq/belfry/raftgroup"
	"github.com/belfryhq/belfry/raftgroup/copies"
	"github.com/belfryhq/belfry/shard/dispatch"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
	"github.com/belfryhq/belfry/shard/internal/throttle"
)

// Config names a shard and the parts that it uses.
type Config struct {
	ID     uint32
	NodeID string // this replica's Raft server id and address; the transport resolves it when it dials

	Storage  raftgroup.Storage // the group's storage; Close closes it. See OpenDisk
	Existing bool              // the node's own record shows that the group was opened here before
	Applied  uint64            // the last index that the previous process had applied, from the node's own record

	Replicas  []Replica // voters of a new group; ignored when there is state
	Preferred string    // id of the node that should lead; empty: any. See Prefer

	Transport raftgroup.Transport

	Node    Node // nil: it knows nothing of other nodes, and its disk has room
	Deliver Deliverer
	// Crowd bounds the attempts under way on this node, of all its shards; nil: the shard has one of its own.
	Crowd *dispatch.Crowd
	// Policies are the policies of the queues; nil: no queue has one. Limits gives the permits of limited queues and of
	// their groups; nil: the shard itself owns all queues.
	Policies Policies
	Limits   Limits

	// History keeps the events of the entries; nil: nothing does.
	History History

	Clock func() time.Time // wall clock; default time.Now

	// DevClock is the clock that Clock reads in dev mode, where a test sets it ahead. Nil: the shard is not in dev mode.
	DevClock DevClock

	Clocks    Clocks    // of the voters; nil: this node's clock is trusted
	Consumers Consumers // of all nodes; nil: a new leader gives back no lease of the one before
	Router    Router    // nil: the leases of attempts whose tasks have moved meanwhile run out

	// Fatal is called when the group cannot go on: a failed disk, a command of a newer version, a wedged leader. In
	// production it ends the process. Required.
	Fatal func(error)

	Timing       Timing
	Policy       Policy
	MaxPending   int64   // bytes of one namespace's waiting commands; all have twice as many. Default 16 MiB
	SnapshotLog  int64   // bytes of log that make a snapshot due,
	SnapshotPart float64 // and the same per byte of the state; the larger counts. Default 32 MiB and 1
	SnapshotTail uint64  // entries kept after a snapshot for followers that fell behind briefly; default 512
	// SnapshotTailBytes limits the bytes of those entries: large entries make the tail shorter. Default 16 MiB.
	SnapshotTailBytes int64
	SnapshotGate      *semaphore.Weighted // shared by a node's shards, so that one at a time snapshots; nil: no limit

	// Copies limits and counts the snapshots that this replica sends; zero: no limit.
	Copies copies.Source

	// inTouch reports whether a majority has answered this leader within its lease. Tests replace it.
	inTouch func(group *raftgroup.Group, term uint64) bool

	Tracer     *tracing.Tracer       // nil: no spans are made
	Logger     *slog.Logger          // default: none
	Registerer prometheus.Registerer // default: none; the shard adds its label
}

// Replica is one voter of a new group.
type Replica struct{ NodeID string }

// Change is one change of leader. Leader is empty while there is none.
type Change struct {
	Shard  uint32
	Leader string
	Term   uint64
}

// Node is the node of a replica, as the replica sees it. The methods must be quick.
type Node interface {
	// MayWrite returns an error while entries of a command version may not be written, because a node of the cluster
	// cannot read them.
	MayWrite(version uint32) error
	// MayLead reports whether a node seems up, with a right clock and a replica of the shard that is fit to lead. It is
	// a hint for giving the leadership away.
	MayLead(shard uint32, nodeID string) bool
	// OnLeader receives each change of leader that the replica notices. It must not block.
	OnLeader(Change)
	// Began receives how long after the due time of its task each attempt of a queue begins here.
	Began(namespace, queue string, late time.Duration)
	// Weight returns the weight of a namespace. Namespaces with calls or due tasks share the shard by weight.
	Weight(namespace string) int
	// Fits reports whether the disk has room for a snapshot of that size.
	Fits(bytes int64) bool
}

// noNode is a Node without knowledge: recent contact alone decides where leaderships go.
type noNode struct{}

func (noNode) MayWrite(uint32) error               { return nil }
func (noNode) MayLead(uint32, string) bool         { return true }
func (noNode) OnLeader(Change)                     {}
func (noNode) Began(string, string, time.Duration) {}
func (noNode) Weight(string) int                   { return 1 }
func (noNode) Fits(int64) bool                     { return true }

// Clocks compares this node's clock with those of other nodes.
type Clocks interface {
	// Agrees returns nil if a majority of the voters keeps the same time. A leader proposes nothing before the first nil.
	// After a jump of its clock, the leader moves the wheel only after another nil.
	Agrees(ctx context.Context, voters []string) error
}

// Consumers asks all nodes about the leases of their consumers.
type Consumers interface {
	// Arrived asks which of these leases of the shard reached the nodes, and leaves out the nodes that do not answer
	// soon. A new leader gives back the leases that did not arrive.
	Arrived(ctx context.Context, shard uint32, fences []uint64) []desk.Arrivals
}

// Router reaches the leaders of all shards.
type Router interface {
	// Do commits commands on tasks wherever their slots are now. The leader uses it for the ends of attempts whose tasks
	// have moved meanwhile.
	Do(ctx context.Context, cmds []*fsmpb.Command) []task.Reply
}

// Deliverer sends attempts to their receivers. Deliver returns when the attempt is over, at the latest soon after ctx
// ends.
type Deliverer interface {
	Deliver(ctx context.Context, attempt task.Attempt) task.Outcome
	// DeliverBatch sends attempts of one queue with equal targets in one request. It returns one outcome per attempt,
	// in order. The shard calls it only for queues that allow more than one task in a request.
	DeliverBatch(ctx context.Context, batch []task.Attempt) []task.Outcome
}

// Timing holds every duration that concerns Raft or the machine that Raft runs on.
type Timing struct {
	raftgroup.Timing

	Calm      time.Duration // how long the preferred node must be well before a transfer, and the pause between tries
	Patience  time.Duration // how long a planned transfer waits for a moment without running attempts
	Drain     time.Duration // how long an urgent transfer then holds new attempts back while the running ones end
	ClockJump time.Duration // a jump of the wall clock by more than this pauses firing for a comparison of clocks
	ClockLook time.Duration // longest time that a leader with tasks does not read the clock, which may be set forward
}

// LAN returns the timing for nodes within a few milliseconds of each other: failover in less than a second.
func LAN() Timing {
	return Timing{
		Timing: raftgroup.Timing{
			Heartbeat: 350 * time.Millisecond, Election: 350 * time.Millisecond, Lease: 350 * time.Millisecond,
			Beat: 150 * time.Millisecond, Commit: time.Second, HeadStart: 700 * time.Millisecond,
			Stuck: 20 * time.Second,
		},
		Calm: 3 * time.Second, Patience: 2 * time.Second, Drain: time.Second,
		ClockJump: 250 * time.Millisecond, ClockLook: 2 * time.Second,
	}
}

// Fast returns the timing for one quiet network: failover in about half a second, at twice the idle cost of LAN.
func Fast() Timing {
	t := LAN()
	t.Heartbeat, t.Election, t.Lease = 150*time.Millisecond, 150*time.Millisecond, 150*time.Millisecond
	t.Beat = 60 * time.Millisecond
	return t
}

// Alone returns the timing for a node whose groups have no other voters.
func Alone() Timing {
	t := LAN()
	t.Heartbeat, t.Election, t.Lease = 10*time.Millisecond, 10*time.Millisecond, 10*time.Millisecond
	t.HeadStart = 0
	return t
}

// WAN returns the timing for nodes in different places: failover in three seconds.
func WAN() Timing {
	t := LAN()
	t.Heartbeat, t.Election, t.Lease = time.Second, time.Second, 800*time.Millisecond
	t.Beat = 400 * time.Millisecond
	t.HeadStart, t.Calm = 2*time.Second, 10*time.Second
	return t
}

// Policy holds the defaults of tasks whose own fields are unset. The leader writes them into the log as plain numbers.
type Policy struct {
	Window         uint32        // attempts in flight per lane on this shard, while nothing is known of the receiver
	MaxWindow      uint32        // the greatest window of a lane, for a receiver known to take that many
	Timeout        time.Duration // of an attempt
	LeaseMargin    time.Duration // beyond an attempt's timeout and the horizon, how much longer its lease is
	KeepDone       time.Duration // lifetime of a tombstone
	TombstoneBytes int64         // limit on the bytes of all tombstones of the shard; 0: no limit
	MaxAttempts    uint32
	MinBackoff     time.Duration
	MaxBackoff     time.Duration
}

func defaultPolicy() Policy {
	return Policy{
		Window: 16, MaxWindow: 512,
		Timeout: task.DefaultTimeout, LeaseMargin: 5 * time.Second, KeepDone: task.DefaultKeepDone,
		MaxAttempts: task.DefaultMaxAttempts, MinBackoff: task.DefaultMinBackoff, MaxBackoff: task.DefaultMaxBackoff,
	}
}

// DefaultCrowd is the number of attempts of a node without a bound.
const DefaultCrowd = 1 << 16

const (
	defaultMaxPending        = 16 << 20
	defaultSnapshotLog       = 32 << 20
	defaultSnapshotTail      = 512
	defaultSnapshotTailBytes = 16 << 20
)

func (c Config) withDefaults() (Config, error) {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Timing == (Timing{}) {
		c.Timing = LAN()
	}
	flawBlinds(&c)
	c.Policy = c.Policy.withDefaults()
	if c.Crowd == nil {
		c.Crowd = dispatch.NewCrowd(DefaultCrowd)
	}
	if c.Policies == nil {
		c.Policies = noPolicies{}
	}
	if c.Node == nil {
		c.Node = noNode{}
	}
	if c.inTouch == nil {
		c.inTouch = (*raftgroup.Group).InTouch
	}
	setDefault(&c.MaxPending, defaultMaxPending)
	setDefault(&c.SnapshotLog, defaultSnapshotLog)
	setDefault(&c.SnapshotPart, 1)
	setDefault(&c.SnapshotTail, defaultSnapshotTail)
	setDefault(&c.SnapshotTailBytes, defaultSnapshotTailBytes)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("shard", c.ID)
	return c, c.validate()
}

// withDefaults replaces each zero field by its default.
func (p Policy) withDefaults() Policy {
	d := defaultPolicy()
	setDefault(&p.Window, d.Window)
	setDefault(&p.MaxWindow, max(d.MaxWindow, p.Window))
	setDefault(&p.Timeout, d.Timeout)
	setDefault(&p.LeaseMargin, d.LeaseMargin)
	setDefault(&p.KeepDone, d.KeepDone)
	setDefault(&p.MaxAttempts, d.MaxAttempts)
	setDefault(&p.MinBackoff, d.MinBackoff)
	setDefault(&p.MaxBackoff, d.MaxBackoff)
	return p
}

// throttle returns the limits of the lanes' throttles.
func (p Policy) throttle() throttle.Config {
	cfg := throttle.Default()
	cfg.Start, cfg.Max = int(p.Window), int(p.MaxWindow)
	return cfg
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c Config) validate() error {
	switch {
	case c.NodeID == "":
		return errors.New("shard: no node id")
	case c.Transport == nil:
		return errors.New("shard: no transport")
	case c.Deliver == nil:
		return errors.New("shard: no Deliverer")
	case c.Fatal == nil:
		return errors.New("shard: Fatal is not set")
	case c.Storage == nil:
		return errors.New("shard: no storage")
	case c.Policy.Window > c.Policy.MaxWindow:
		return fmt.Errorf("shard: window %d is over the greatest, %d", c.Policy.Window, c.Policy.MaxWindow)
	case c.Policy.MinBackoff > c.Policy.MaxBackoff:
		return fmt.Errorf("shard: least backoff %v is over the greatest, %v", c.Policy.MinBackoff, c.Policy.MaxBackoff)
	}
	return c.Timing.validate()
}

func (t Timing) validate() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"heartbeat", t.Heartbeat}, {"election", t.Election}, {"lease", t.Lease}, {"commit", t.Commit},
		{"calm", t.Calm}, {"stuck", t.Stuck}, {"clock jump", t.ClockJump}, {"clock look", t.ClockLook},
	} {
		if d.value <= 0 {
			return fmt.Errorf("shard: timing %s is %v", d.name, d.value)
		}
	}
	if t.Lease > t.Heartbeat || t.Heartbeat > t.Election {
		return fmt.Errorf("shard: lease %v <= heartbeat %v <= election %v does not hold", t.Lease, t.Heartbeat, t.Election)
	}
	return nil
}
