package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clocks"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/consume"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/disk"
	"github.com/belfryhq/belfry/cluster/internal/addressbook"
	"github.com/belfryhq/belfry/cluster/internal/compare"
	"github.com/belfryhq/belfry/cluster/internal/gossip"
	"github.com/belfryhq/belfry/cluster/internal/health"
	"github.com/belfryhq/belfry/cluster/internal/identity"
	"github.com/belfryhq/belfry/cluster/internal/witness"
	"github.com/belfryhq/belfry/cluster/leaders"
	"github.com/belfryhq/belfry/cluster/logs"
	"github.com/belfryhq/belfry/cluster/memory"
	"github.com/belfryhq/belfry/cluster/peer"
	"github.com/belfryhq/belfry/cluster/replicas"
	"github.com/belfryhq/belfry/cluster/router"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/raftgroup/journal"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
)

// Node is this process as a node of the cluster. Its methods are safe for concurrent use.
type Node struct {
	cfg       Config
	asked     *slog.Logger // for messages about requests of other nodes, which may be strangers
	identity  *identity.Identity
	book      *addressbook.Book
	endpoint  *peer.Endpoint
	server    *grpc.Server
	gossip    *gossip.Gossip
	clocks    *clocks.Clocks
	peers     *peers
	leaders   *leaders.Beliefs
	replicas  *replicas.Set
	router    *router.Router
	consumers *consume.Consumers
	journal   *journal.Journal
	seen      *witness.Table
	disk      *disk.Watch
	memory    *memory.Watch
	comparer  *compare.Comparer
	health    *health.Nodes

	runHere witness.Run
	folder  folder
	check   atomic.Pointer[witness.Check]   // nil: the check has not begun
	present atomic.Bool                     // the node takes part, or has no data yet that could be old
	refusal atomic.Pointer[witness.Refusal] // the reason why the node will never take part

	mapped atomic.Pointer[mapped]

	ctx      context.Context // of the background goroutines
	cancel   context.CancelCauseFunc
	workers  sync.WaitGroup
	serving  sync.WaitGroup // goes on until the replicas have ended, because other nodes still ask
	draining chan struct{}  // closed when other nodes may ask no more
	close    sync.Once
	closed   error

	mu      sync.Mutex
	control *control.Group // nil: the node is in no cluster yet
	noRoom  error          // the full disk that last kept the node from entering a cluster; nil: none
}

// Open starts the node from its data folder, or as a new one. It does not wait for other nodes; see Ready.
func Open(cfg Config) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	n := &Node{cfg: cfg, asked: logs.Limited(cfg.Logger), leaders: leaders.NewBeliefs(), draining: make(chan struct{})}
	n.ctx, n.cancel = context.WithCancelCause(context.Background())
	if err := n.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: %w", err), n.Close(context.Background()))
	}
	return n, nil
}

func (n *Node) open() error {
	var err error
	if n.identity, err = identity.Open(n.cfg.DataDir); err != nil {
		return err
	}
	n.book = addressbook.Open(n.cfg.DataDir, n.cfg.Logger)
	if n.seen, err = witness.Open(witness.Config{
		Dir: n.cfg.DataDir, Node: n.ID(), New: len(n.identity.Groups()) == 0, Fatal: n.cfg.Fatal,
	}); err != nil {
		return err
	}
	if n.journal, err = journal.Open(journal.Config{
		Dir: n.identity.JournalDir(), Root: n.cfg.DataDir, Fatal: n.cfg.Fatal, Registerer: n.cfg.Registerer,
	}); err != nil {
		return err
	}
	n.folder.disks, n.folder.unread = make(map[uint32]*raftdisk.Disk), make(map[uint32]error)
	n.present.Store(n.ClusterID() == "")
	if n.ClusterID() != "" {
		if err := n.openControlDisk(); err != nil {
			return err
		}
	}
	if err := n.openPort(); err != nil {
		return err
	}
	n.runHere = newRun(n.identity.Boot(), n.endpoint.Addr())
	n.health = n.newHealth()
	n.replicas = n.newReplicas()
	n.peers = newPeers(n)
	n.router = router.New(router.Config{
		Self: n.ID(), State: n.state, Local: n.replicas,
		Remote:  func(id string) calls.Shards { return n.peers.get(id).calls },
		Leaders: n.leaders, Alive: n.health.Alive, Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
	})
	n.consumers = n.newConsumers()
	n.disk, n.memory = n.watchDisk(), n.watchMemory()
	n.comparer = n.newComparer()
	if err := n.startGossip(); err != nil {
		return err
	}
	n.serve()
	n.clocks = clocks.Start(clocks.Config{
		Self: n.ID(), Clock: n.cfg.Clock, Peers: n.mapNodes, Alone: n.isAlone, Ask: n.askTime,
		MaxOffset: n.cfg.MaxClockOffset, Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
	})
	n.registerQueues()
	n.workers.Go(n.run)
	n.workers.Go(func() { n.book.Run(n.ctx) })
	n.workers.Go(func() { n.comparer.Run(n.ctx) })
	n.workers.Go(func() { n.disk.Run(n.ctx) })
	n.workers.Go(func() { n.memory.Run(n.ctx) })
	return nil
}

// openPort opens the port for other nodes. The node hears and answers them only after serve.
func (n *Node) openPort() error {
	var err error
	n.endpoint, err = peer.Listen(peer.Config{
		NodeID: n.ID(), NodeName: n.cfg.Name, BindAddr: n.cfg.BindAddr, AdvertiseAddr: n.cfg.AdvertiseAddr,
		Lookup: n.lookup, Reached: n.reached, Member: n.isMember, TakesPart: n.present.Load, Seen: n.seen.Saw,
		Keys: n.cfg.Keys, Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
	})
	return err
}

// ID returns the node's id, which belongs to the data folder and never changes.
func (n *Node) ID() string { return n.identity.NodeID() }

// PeerAddr returns the address at which other nodes dial this node.
func (n *Node) PeerAddr() string { return n.endpoint.Addr() }

// ClusterID returns the id of the node's cluster, or "" if it is in none yet.
func (n *Node) ClusterID() string { return n.identity.ClusterID() }

// Do commits commands about tasks through the leaders of their shards, on any node, and returns the replies in order.
// Commands about one id keep their order. A context without a deadline gives a call ten seconds.
func (n *Node) Do(ctx context.Context, cmds []*fsmpb.Command) []task.Reply {
	return n.router.Do(ctx, cmds)
}

// Get returns a task, or nil if there is none; see router.Router.
func (n *Node) Get(ctx context.Context, namespace, id string, stale bool) (*fsmpb.Task, error) {
	return n.router.Get(ctx, namespace, id, stale)
}

// List returns one page of tasks over all shards; see router.Router.
func (n *Node) List(ctx context.Context, q *fsmpb.ListQuery, stale bool) (*fsmpb.ListPage, error) {
	return n.router.List(ctx, q, stale)
}

// Ready returns nil once the node knows the shards, each replica on it has caught up once, and the node can tell the
// time. Otherwise it returns the reason.
func (n *Node) Ready() error {
	if reason := n.Barred(); reason != "" {
		return errors.New(reason)
	}
	state := n.state()
	if len(state.Shards) == 0 {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.noRoom != nil {
			return n.noRoom
		}
		return errors.New("this node does not know the shards yet: it is forming or joining a cluster, or has not caught up")
	}
	for _, s := range state.Shards {
		if len(s.Replicas) == 0 {
			return fmt.Errorf("shard %d has no place yet", s.Id)
		}
	}
	if err := n.replicas.Ready(state); err != nil {
		return err
	}
	if _, sure := n.Now(); !sure {
		return errors.New("this node's clock has not been compared with the others': too few answer, or they are at odds")
	}
	return nil
}

// state returns the control group's state, which is empty before the node is in a cluster. The caller must not change
// it.
func (n *Node) state() *clusterpb.ControlState {
	if g := n.controlGroup(); g != nil {
		return g.State()
	}
	return &clusterpb.ControlState{}
}

// watchState returns the control group's state, and a channel that is closed at the next change.
func (n *Node) watchState() (*clusterpb.ControlState, <-chan struct{}) {
	if g := n.controlGroup(); g != nil {
		return g.Watch()
	}
	return &clusterpb.ControlState{}, nil
}

func (n *Node) controlGroup() *control.Group {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.control
}

var errClosed = errors.New("the node is being closed")

// Close stops the node in the reverse order of its start, and gives leaderships away first. It may take a little
// longer than ctx allows.
func (n *Node) Close(ctx context.Context) error {
	n.close.Do(func() { n.closed = n.shutdown(ctx) })
	return n.closed
}

// shutdown also ends a node whose opening has failed half-way.
func (n *Node) shutdown(ctx context.Context) error {
	n.cancel(errClosed)
	n.workers.Wait()
	if n.consumers != nil {
		n.consumers.Close()
	}
	var errs []error
	if n.replicas != nil {
		errs = append(errs, n.replicas.Close(ctx))
	}
	if g := n.controlGroup(); g != nil {
		errs = append(errs, g.Close())
	}
	errs = append(errs, n.closeDisks())
	if n.server != nil {
		n.stopServing()
	}
	if n.clocks != nil {
		n.clocks.Close()
	}
	if n.peers != nil {
		errs = append(errs, n.peers.close())
	}
	if n.gossip != nil {
		if err := n.gossip.Close(); err != nil {
			n.cfg.Logger.Debug("gossip did not end as it should", "err", err) // no node is left to hear the goodbye
		}
	}
	if n.endpoint != nil {
		errs = append(errs, n.endpoint.Close())
	}
	if n.seen != nil {
		errs = append(errs, n.seen.Close())
	}
	if n.journal != nil {
		errs = append(errs, n.journal.Close())
	}
	if n.identity != nil {
		errs = append(errs, n.identity.Close())
	}
	return errors.Join(errs...)
}

// sleep waits, and reports whether the node goes on.
func (n *Node) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-n.ctx.Done():
		return false
	}
}
