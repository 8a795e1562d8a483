package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/raftgroup/install"
	"github.com/belfryhq/belfry/raftgroup/journal"
	"github.com/belfryhq/belfry/raftgroup/logstore"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
	"github.com/belfryhq/belfry/raftgroup/raftlog"
)

// Config says where the group lives.
type Config struct {
	NodeID    string
	Dir       string
	Existing  bool     // the node's own record says that the group was opened here before
	Applied   uint64   // the last entry that the process before had applied, as far as the node's own record says
	Bootstrap []string // begin a new group with these voters; empty: wait to be told by its leader
	Plan      Plan

	Disk *raftdisk.Disk // opened by OpenDisk; the replica closes it. nil: it opens Dir itself

	Transport raft.Transport // addresses are node ids; without a fast path for heartbeats
	LogStore  logstore.Kind
	Journal   *journal.Journal // the node's; nil: each append is synced by itself
	Heartbeat time.Duration    // see Timing of hashicorp/raft; 0: 600 ms. Running shards go on without it; those of
	// a node that starts wait for it

	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Fatal      func(error) // the group cannot go on
}

func (c Config) withDefaults() (Config, error) {
	if c.Heartbeat == 0 {
		c.Heartbeat = 600 * time.Millisecond
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.NodeID == "" || c.Dir == "" || c.Transport == nil || c.Fatal == nil:
		return c, errors.New("control group: node id, folder, transport and Fatal are needed")
	case len(c.Plan.ClusterID) == 0:
		return c, errors.New("control group: no cluster id")
	}
	return c, nil
}

// Group is this node's replica of the control group.
type Group struct {
	cfg     Config
	machine *machine
	raft    *raft.Raft
	disk    *raftdisk.Disk
	leads   chan bool // the newest news of leadership
	cancel  context.CancelFunc
	done    chan struct{} // closed when both goroutines and Raft have ended
	stopped error         // how Raft ended; read after done
}

// Open starts the replica.
func Open(cfg Config) (*Group, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	g := &Group{cfg: cfg, machine: newMachine(cfg.Fatal), leads: make(chan bool, 1), done: make(chan struct{})}
	notify := make(chan bool)
	if err := g.start(notify); err != nil {
		return nil, fmt.Errorf("control group: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	listening := make(chan struct{})
	go func() { defer close(listening); g.listen(ctx, notify) }()
	go func() { defer close(g.done); g.lead(ctx); <-listening }()
	return g, nil
}

// OpenDisk opens the files of the group. It reads only the fields of cfg that say where and how the files are kept.
func OpenDisk(cfg Config) (*raftdisk.Disk, error) {
	return raftdisk.Open(raftdisk.Config{
		Dir: cfg.Dir, LogDir: cfg.Dir, Kind: cfg.LogStore, Existing: cfg.Existing, Journal: cfg.Journal,
		Owner: &raftdisk.Owner{Cluster: cfg.Plan.ClusterID, Node: cfg.NodeID},
		Fatal: cfg.Fatal, Logger: cfg.Logger, Registerer: cfg.Registerer,
	})
}

func (g *Group) start(notify chan bool) (err error) {
	if g.disk = g.cfg.Disk; g.disk == nil {
		if g.disk, err = OpenDisk(g.cfg); err != nil {
			return err
		}
	}
	conf, stores := g.raftConfig(notify), g.disk.Stores
	if err := g.bootstrap(conf); err != nil {
		return errors.Join(err, stores.Close())
	}
	gate := install.New(g.cfg.Transport, stores.Log(), g.cfg.Logger, func(err error) {
		g.cfg.Fatal(fmt.Errorf("control group on node %s: %w", g.cfg.NodeID, err))
	})
	gate.Remember(g.cfg.Applied)
	g.raft, err = raft.NewRaft(conf, g.machine, stores.Log(), stores.Stable(), g.disk.Snapshots, gate.Transport())
	if err != nil {
		return errors.Join(err, stores.Close())
	}
	gate.Open(g.raft)
	return nil
}

func (g *Group) raftConfig(notify chan bool) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(g.cfg.NodeID)
	c.HeartbeatTimeout, c.ElectionTimeout = g.cfg.Heartbeat, g.cfg.Heartbeat
	c.LeaderLeaseTimeout = g.cfg.Heartbeat * 3 / 4
	c.CommitTimeout = g.cfg.Heartbeat / 3 // how late an idle node hears of the last change
	c.TrailingLogs, c.SnapshotThreshold = 256, 1024
	c.ShutdownOnRemove = false
	c.NoLegacyTelemetry = true
	c.NotifyCh = notify
	c.Logger = raftlog.New(g.cfg.Logger)
	return c
}

// bootstrap writes the first configuration of a new group, once.
func (g *Group) bootstrap(conf *raft.Config) error {
	if len(g.cfg.Bootstrap) == 0 {
		return nil
	}
	var voters raft.Configuration
	for _, id := range g.cfg.Bootstrap {
		voters.Servers = append(voters.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
	}
	stores := g.disk.Stores
	err := raft.BootstrapCluster(conf, stores.Log(), stores.Stable(), g.disk.Snapshots, g.cfg.Transport, voters)
	if errors.Is(err, raft.ErrCantBootstrap) {
		return nil // it was done before
	}
	return err
}

// State is the newest state that this replica has applied. It must not be changed.
func (g *Group) State() *clusterpb.ControlState {
	state, _ := g.machine.watch()
	return state
}

// Watch is State, and a channel that is closed when there is a newer one.
func (g *Group) Watch() (*clusterpb.ControlState, <-chan struct{}) { return g.machine.watch() }

// Leader is who leads, as far as this replica knows; empty: nobody.
func (g *Group) Leader() (nodeID string, term uint64) {
	_, id := g.raft.LeaderWithID()
	return string(id), g.raft.CurrentTerm()
}

// Position is the replica's term, and the last entry that Raft gave it to apply.
func (g *Group) Position() (term, applied uint64) { return g.raft.CurrentTerm(), g.raft.AppliedIndex() }

// Applied is the last index applied, and RaftState what the replica is at the moment.
func (g *Group) Applied() uint64 { return g.raft.AppliedIndex() }

// RaftState is what the replica is at the moment.
func (g *Group) RaftState() raft.RaftState { return g.raft.State() }

// Register adds the node, or refreshes what is known about it, and waits until that is committed. Only the leader can:
// elsewhere the error is a task.NotLeaderError.
func (g *Group) Register(ctx context.Context, node *clusterpb.Node) error {
	if known := Node(g.State(), node.Id); known != nil && proto.Equal(known, node) && g.raft.State() == raft.Leader {
		return nil
	}
	_, err := g.propose(ctx, &clusterpb.ControlEntry{
		Version: Version, Op: &clusterpb.ControlEntry_Register{Register: &clusterpb.Register{Node: node}},
	})
	return err
}

// propose returns what applying the entry answered.
func (g *Group) propose(ctx context.Context, entry *clusterpb.ControlEntry) (any, error) {
	data, err := proto.Marshal(entry)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("control group: %w: %w", task.ErrNotProposed, ctx.Err())
	}
	future := g.raft.Apply(data, enqueueTimeout(ctx))
	if err := await(ctx, future); err != nil {
		return nil, g.explain(err)
	}
	answer := future.Response()
	if refusal, ok := answer.(error); ok {
		return nil, refusal
	}
	return answer, nil
}

// await returns the answer, or why ctx ended first: Raft never gives some answers when it is shut down.
func await(ctx context.Context, future raft.Future) error {
	answered := make(chan error, 1)
	go func() { answered <- future.Error() }()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enqueueTimeout is how long Raft may take to accept an entry: it does not look at a context.
func enqueueTimeout(ctx context.Context) time.Duration {
	const most, least = 10 * time.Second, time.Millisecond // 0 would be for ever
	if until, ok := ctx.Deadline(); ok {
		return max(min(most, time.Until(until)), least)
	}
	return most
}

func (g *Group) explain(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader):
		leader, _ := g.Leader()
		return &task.NotLeaderError{Leader: leader}
	case errors.Is(err, raft.ErrEnqueueTimeout), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fmt.Errorf("control group: %w: %w", task.ErrNotProposed, err)
	default:
		return fmt.Errorf("control group: %w: %w", task.ErrUnknown, err)
	}
}

// Close gives leadership away if it can, and stops the replica.
func (g *Group) Close() error {
	if g.raft.State() == raft.Leader && len(g.servers()) > 1 {
		if err := g.raft.LeadershipTransfer().Error(); err != nil {
			g.cfg.Logger.Debug("the control group's leadership could not be given away", "err", err)
		}
	}
	g.cancel()
	<-g.done
	return errors.Join(g.stopped, g.disk.Stores.Close())
}
