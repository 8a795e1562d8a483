package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/reshape"
	"github.com/belfryhq/belfry/cluster/seal"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/raftgroup"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
)

// Config holds the settings of a node's replica of the control group.
type Config struct {
	NodeID    string
	Applied   uint64   // the last entry that the previous process had applied, by the node's own record
	Bootstrap []string // the voters of a new group; empty: the group's leader adds this node
	Plan      Plan

	Shards Shards         // the way to the replicas of shards
	Slots  Slots          // the way to the leaders of shards; nil: no slots move
	Tasks  Tasks          // the way to the tasks of namespaces that are deleted; nil: none is
	Limits reshape.Limits // 0: a calm of 10 s, a replacement after 10 min
	// StepPause is a pause before each step of a move, so that tests see it; 0: none.
	StepPause time.Duration

	AutoSplit AutoSplit // zero: no shard splits by itself

	Secrets *seal.Keys // cluster keys of this node, for the secrets of policies; nil: none

	Algorithms []string // for which the leader keeps keys of tokens: see package jwtkeys

	Tokens bool             // a new node needs a one-time token, because nodes show certificates
	Clock  func() time.Time // for the life of tokens; nil: time.Now

	Storage   raftgroup.Storage   // closed by Close; see OpenDisk
	Transport raftgroup.Transport // without a fast path for heartbeats
	Heartbeat time.Duration       // see raftgroup.Timing; 0: 600 ms. Running shards do not need the group; those of a
	// starting node wait for it
	Beat time.Duration // see raftgroup.Timing: that of the shards, so that all heartbeats of a node leave together

	Logger *slog.Logger
	Fatal  func(error) // called when the group cannot go on
}

func (c Config) withDefaults() (Config, error) {
	if c.Heartbeat == 0 {
		c.Heartbeat = 600 * time.Millisecond
	}
	c.Limits.Calm = cmp.Or(c.Limits.Calm, 10*time.Second)
	c.Limits.ReplaceAfter = cmp.Or(c.Limits.ReplaceAfter, 10*time.Minute)
	c.AutoSplit.Shards = cmp.Or(c.AutoSplit.Shards, DefaultAutoShards)
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Plan.ClusterID == "":
		return c, errors.New("no cluster id")
	case c.Shards == nil:
		return c, errors.New("no way to the shards")
	}
	return c, nil
}

// timing returns the group's timing.
func (c Config) timing() raftgroup.Timing {
	return raftgroup.Timing{
		Heartbeat: c.Heartbeat, Election: c.Heartbeat, Lease: c.Heartbeat * 3 / 4, Beat: c.Beat,
		Commit: c.Heartbeat / 3, // how late an idle node learns of the last change
	}
}

// Group is this node's replica of the control group.
type Group struct {
	cfg     Config
	machine *machine
	group   *raftgroup.Group
	leading atomic.Pointer[reconciler] // nil: this replica does not lead
	splits  atomic.Uint64              // automatic ones that this replica has begun
}

// Open starts the replica. After an error nothing runs, and the caller must close storage and transport.
func Open(cfg Config) (*Group, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("control group: %w", err)
	}
	g := &Group{cfg: cfg, machine: newMachine()}
	g.group, err = raftgroup.Open(raftgroup.Config{
		Name: "control group", NodeID: cfg.NodeID, Machine: g.machine, Storage: cfg.Storage, Transport: cfg.Transport,
		Voters: cfg.Bootstrap, Applied: cfg.Applied, Timing: cfg.timing(),
		Snapshots: raftgroup.SnapshotConfig{Entries: 1024, Tail: 256}, Fatal: cfg.Fatal, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("control group: %w", err)
	}
	g.group.Lead(g.reconcile)
	return g, nil
}

// OpenDisk opens the files of the group in cfg.Dir. It sets cfg.LogDir to the same folder.
func OpenDisk(cfg raftdisk.Config) (*raftdisk.Disk, error) {
	cfg.LogDir = cfg.Dir
	return raftdisk.Open(cfg)
}

// State returns the newest state that this replica has applied. The caller must not change it.
func (g *Group) State() *clusterpb.ControlState {
	state, _ := g.machine.watch()
	return state
}

// Watch returns State, and a channel that is closed when there is a newer one.
func (g *Group) Watch() (*clusterpb.ControlState, <-chan struct{}) { return g.machine.watch() }

// Standing returns the place of every node in the cluster as this replica knows it, or nil before the replica has
// applied an entry. The caller must not change its parts.
func (g *Group) Standing() *clusterpb.Standing {
	state, applied := g.machine.at()
	if applied == 0 || len(state.Shards) == 0 {
		return nil
	}
	return &clusterpb.Standing{Applied: applied, Voters: g.Voters(), Shards: state.Shards}
}

// Leader returns the leader that this replica knows, or "" if none, and the replica's current term.
func (g *Group) Leader() (nodeID string, term uint64) { return g.group.Leader() }

// Position returns the replica's term, and the index of the last entry that Raft gave it to apply.
func (g *Group) Position() (term, applied uint64) { return g.group.Position() }

// Stats describes the replica.
func (g *Group) Stats() raftgroup.Stats { return g.group.Stats() }

// Voters returns the node ids of the group's voters in the newest configuration that this replica knows.
func (g *Group) Voters() []string { return g.group.Voters() }

// AutoSplits returns the number of splits that this replica has begun by itself since its start.
func (g *Group) AutoSplits() uint64 { return g.splits.Load() }

// Register adds a node to the state or updates its record, without a token, and waits until the entry is committed. The
// error is an errNotAdmitted if the node needs a token, and a *task.NotLeaderError on a node that does not lead.
func (g *Group) Register(ctx context.Context, node *clusterpb.Node) error {
	_, err := g.change(ctx, Registration(node, ""))
	return err
}

// propose commits an entry, and returns the answer of applying it. It sets the entry's version. The error is a
// *BehindError if a node does not read that version.
func (g *Group) propose(ctx context.Context, entry *clusterpb.ControlEntry) (*clusterpb.ControlChanged, error) {
	entry.Version = versionOf(entry)
	if g.group.Leads() { // the state of another node may be old
		if err := MayWrite(g.State(), entry.Version); err != nil {
			return nil, err
		}
	}
	data, err := proto.Marshal(entry)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("control group: %w: %w", task.ErrNotProposed, ctx.Err())
	}
	answer, err := g.group.Propose(ctx, data)
	if err != nil {
		return nil, g.explain(err)
	}
	if refusal, ok := answer.(error); ok {
		return nil, refusal
	}
	changed, _ := answer.(*clusterpb.ControlChanged) // every other answer is an error, returned above
	return changed, nil
}

// decide commits an entry and tells the other nodes at once: a caller may go on at another node, and calls on slots
// that move wait until their node knows the new owner.
func (g *Group) decide(ctx context.Context, entry *clusterpb.ControlEntry) (*clusterpb.ControlChanged, error) {
	changed, err := g.propose(ctx, entry)
	if err == nil {
		g.group.Announce()
	}
	return changed, err
}

func (g *Group) explain(err error) error {
	switch {
	case errors.Is(err, raftgroup.ErrNotLeader):
		leader, _ := g.Leader()
		return &task.NotLeaderError{Leader: leader}
	case errors.Is(err, raftgroup.ErrRefused):
		return fmt.Errorf("control group: %w: %w", task.ErrNotProposed, err)
	default:
		return fmt.Errorf("control group: %w: %w", task.ErrUnknown, err)
	}
}

// Close hands the leadership over if it can, and stops the replica.
func (g *Group) Close() error {
	if g.group.Leads() && len(g.group.Members()) > 1 {
		if err := g.group.HandOver(context.Background(), ""); err != nil {
			g.cfg.Logger.Debug("the control group's leadership could not be given away", "err", err)
		}
	}
	return g.group.Close()
}
