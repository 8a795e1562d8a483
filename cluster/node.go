package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/backup"
	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/chronicle"
	"github.com/belfryhq/belfry/cluster/clocks"
	"github.com/belfryhq/belfry/cluster/consume"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cluster/internal/gossip"
	"github.com/belfryhq/belfry/cluster/internal/health"
	"github.com/belfryhq/belfry/cluster/internal/membership"
	"github.com/belfryhq/belfry/cluster/internal/witness"
	"github.com/belfryhq/belfry/cluster/logs"
	"github.com/belfryhq/belfry/cluster/peer"
	"github.com/belfryhq/belfry/cluster/peerkeys"
	"github.com/belfryhq/belfry/cluster/queuemetrics"
	"github.com/belfryhq/belfry/cluster/quotas"
	"github.com/belfryhq/belfry/cluster/replicas"
	"github.com/belfryhq/belfry/cluster/router"
	"github.com/belfryhq/belfry/cluster/tenants"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/raftgroup/copies"
	"github.com/belfryhq/belfry/raftgroup/journal"
	"github.com/belfryhq/belfry/shard"
	"github.com/belfryhq/belfry/shard/dispatch"
)

// Node is this process as a node of the cluster. Its methods are safe for concurrent use.
type Node struct {
	cfg     Config
	limited *slog.Logger // for messages about requests of other nodes, which may be strangers

	// the data folder
	identity *membership.Identity
	records  *witness.Table
	journal  *journal.Journal
	disks    *membership.Disks
	disk     *headroom.Disk

	// the other nodes
	runHere   witness.Run
	keys      *peerkeys.Keys // nil: nodes do not authenticate each other
	endpoint  *peer.Endpoint
	server    *server
	gossip    *gossip.Gossip
	peers     *peers
	table     *calls.Table
	clocks    *clocks.Clocks
	directory *membership.Directory

	// the place in the cluster
	control   *control.Replica
	admission *membership.Admission
	member    *membership.Member
	tenants   *tenants.Tenants
	tokens    *control.Tokens
	quotas    *quotas.Quotas

	// the shards
	leaders   *calls.Beliefs
	replicas  *replicas.Set
	health    *health.Nodes
	memory    *headroom.Memory
	router    *router.Router
	consumers *consume.Consumers
	chronicle *chronicle.Keeper
	events    *chronicle.Reader
	crowd     *dispatch.Crowd // of the attempts under way here
	copies    *copies.Meter   // of the snapshots that this node sends, and of the tasks of moving slots
	lateness  *queuemetrics.Lateness

	// the cluster as a whole
	policies   *control.Policies
	taker      *backup.Taker
	backups    backups
	viewer     *viewer
	examiner   *examiner
	operations *Operations

	ctx     context.Context // of the background goroutines
	cancel  context.CancelCauseFunc
	workers sync.WaitGroup
	close   sync.Once
	closed  error
}

// Open starts the node from its data folder, or as a new one. It does not wait for other nodes; see Ready.
func Open(cfg Config) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	n := &Node{cfg: cfg, limited: logs.Limited(cfg.Logger), leaders: calls.NewBeliefs()}
	n.examiner = &examiner{n: n, opened: time.Now()}
	n.ctx, n.cancel = context.WithCancelCause(context.Background())
	if err := n.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: %w", err), n.Close(context.Background()))
	}
	return n, nil
}

// open opens the parts in their order: the data folder, the port, and the parts that use both.
func (n *Node) open() error {
	if err := n.openFolder(); err != nil {
		return err
	}
	n.control = control.NewReplica(control.ReplicaConfig{
		Node: n.ID(), Boot: n.identity.Boot(), Nodes: allNodes{n}, Logger: n.cfg.Logger,
	})
	n.admission = membership.NewAdmission(n.ClusterID())
	n.directory = membership.NewDirectory(membership.DirectoryConfig{
		Identity: n.identity, Control: n.control, Join: n.cfg.Join, Node: meshed{n}, Logger: n.cfg.Logger,
	})
	if err := n.openKeys(); err != nil {
		return err
	}
	if err := n.openPort(); err != nil {
		return err
	}
	n.runHere = witness.NewRun(n.identity.Boot(), n.endpoint.Addr())
	n.peers = newPeers(n)
	n.openShards()
	if err := n.startGossip(); err != nil {
		return err
	}
	n.member = n.newMember()
	n.server = n.serve()
	n.clocks = clocks.Start(clocks.Config{
		Self: n.ID(), Clock: n.cfg.Clock, Directory: n.directory, Peers: allNodes{n}, MaxOffset: n.cfg.MaxClockOffset,
		Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
	})
	n.registerQueues()
	n.registerShape()
	for _, run := range []func(context.Context){n.follow, n.directory.SaveBook, n.health.Run} {
		n.workers.Go(func() { run(n.ctx) })
	}
	n.workers.Go(func() { n.disk.Run(n.ctx, n.health.Judge) })
	n.workers.Go(func() { n.memory.Run(n.ctx, n.health.Judge) })
	if n.keys != nil {
		n.workers.Go(func() { n.keys.Run(n.ctx, n.gossip.SetKeys) })
	}
	return nil
}

// openFolder opens the files of the data folder except those of the shards.
func (n *Node) openFolder() error {
	var err error
	if n.identity, err = membership.OpenIdentity(n.cfg.DataDir); err != nil {
		return err
	}
	if n.records, err = witness.Open(witness.Config{
		Dir: n.cfg.DataDir, Node: n.ID(), New: len(n.identity.Groups()) == 0, Fatal: n.cfg.Fatal, Logger: n.cfg.Logger,
	}); err != nil {
		return err
	}
	if err := n.identity.ResumeRemovals(n.records.Drop); err != nil {
		return err
	}
	if n.journal, err = journal.Open(journal.Config{
		Dir: n.identity.JournalDir(), Root: n.cfg.DataDir, Fatal: n.cfg.Fatal, Registerer: n.cfg.Registerer,
	}); err != nil {
		return err
	}
	n.disks = membership.NewDisks(membership.DisksConfig{
		Identity: n.identity, Records: n.records, Journal: n.journal, Kind: n.cfg.LogStore,
		Logger: n.cfg.Logger, Registerer: n.cfg.Registerer, Fatal: n.cfg.Fatal,
	})
	if n.ClusterID() == "" {
		return nil
	}
	return n.disks.OpenControl()
}

// openKeys reads the files by which nodes authenticate each other.
func (n *Node) openKeys() error {
	if n.cfg.Keys == nil {
		return nil
	}
	var err error
	n.keys, err = peerkeys.Open(peerkeys.Config{
		Files: *n.cfg.Keys, NodeName: n.cfg.Name, Reload: n.cfg.Reload, Logger: n.cfg.Logger,
		Registerer: n.cfg.Registerer,
	})
	return err
}

// openPort opens the port for other nodes. The node hears and answers them only after serve.
func (n *Node) openPort() error {
	var err error
	n.endpoint, err = peer.Listen(peer.Config{
		NodeID: n.ID(), BindAddr: n.cfg.BindAddr, AdvertiseAddr: n.cfg.AdvertiseAddr, Network: n.cfg.Network,
		Directory: n.directory, Admission: n.admission, Records: n.records,
		LeastRate: leastCopyRate(n.cfg.MoveRate), Keys: n.keys, Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
	})
	return err
}

// openShards makes the parts around the shards. No shard is open yet.
func (n *Node) openShards() {
	n.health = health.New(health.Config{
		Self: n.ID(), Node: ownState{n}, Peers: allNodes{n}, Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
	})
	n.tenants = tenants.New(tenants.Config{
		Dir: n.cfg.DataDir, Identity: n.identity, Control: n.control, Tasks: tasks{n}, Logger: n.cfg.Logger,
	})
	n.tokens = control.NewTokens(n.control, n.cfg.Keys != nil)
	n.router = router.New(router.Config{
		Self: n.ID(), Control: n.control, Nodes: allNodes{n}, Leaders: n.leaders,
		Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
	})
	n.quotas = quotas.New(quotas.Config{
		Self: n.ID(), Replicas: ownState{n}, Tenants: n.tenants, Control: n.control, Nodes: allNodes{n}, Router: n.router,
		Trip: quotaTrip(n.cfg.Timing),
	})
	n.copies = n.newCopies()
	n.crowd = dispatch.NewCrowd(cmp.Or(n.cfg.MaxAttempts, shard.DefaultCrowd))
	n.lateness = queuemetrics.NewLateness(n.cfg.QueueMetrics, queueSource{n})
	n.chronicle, n.events = chronicle.NewKeeper(n.cfg.History), chronicle.NewReader(eventSources{n})
	if err := n.chronicle.DropStrays(files{Node: n}.Held()); err != nil {
		n.cfg.Logger.Warn("events of replicas that moved away are left", "err", err)
	}
	n.replicas = n.newReplicas()
	if n.cfg.DevClock != nil {
		n.cfg.DevClock.Use(n.replicas.All)
	}
	n.consumers = consume.New(consume.Config{
		Self: n.ID(), Control: n.control, Replicas: n.replicas, Nodes: allNodes{n}, Leaders: n.leaders, Router: n.router,
		Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
	})
	if n.cfg.JWT != nil {
		n.cfg.JWT.Use(n.control, n.cfg.Secrets, n.cfg.Clock)
	}
	n.policies = control.NewPolicies(n.control, n.replicas.All, n.cfg.Secrets, n.cfg.Logger)
	n.taker = backup.NewTaker(backup.TakerConfig{
		Self: n.ID(), Control: n.control, Replicas: n.replicas, Peers: n.peers, Router: n.router, Clock: n.cfg.Clock,
	})
	n.disk = headroom.NewDisk(headroom.DiskConfig{
		Host: n.cfg.Host, Reserve: n.cfg.MinFreeDisk, Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
	})
	n.memory = headroom.NewMemory(headroom.MemoryConfig{
		Limit: n.cfg.MemoryLimit, Node: ownState{n}, Host: n.cfg.Host, Logger: n.limited, Registerer: n.cfg.Registerer,
	})
	n.viewer = &viewer{n: n}
	n.operations = &Operations{control: n.control, router: n.router, viewer: n.viewer}
	n.table = calls.NewTable(n.replicas.Do, append(n.replicas.Handlers(), n.handlers()...)...)
}

// ID returns the node's id, which belongs to the data folder and never changes.
func (n *Node) ID() string { return n.identity.NodeID() }

// PeerAddr returns the address at which other nodes dial this node.
func (n *Node) PeerAddr() string { return n.endpoint.Addr() }

// ClusterID returns the id of the node's cluster, or "" if it is in none yet.
func (n *Node) ClusterID() string { return n.identity.ClusterID() }

// ReceiptKey returns the secret under which the nodes sign the receipts of leases. It is empty until the node knows the
// state of the control group.
func (n *Node) ReceiptKey() []byte { return n.control.State().GetReceiptKey() }

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

var errNoShards = errors.New(
	"this node does not know the shards yet: it is forming or joining a cluster, or has not caught up")

// Ready returns nil once the node knows the present shards and keys, each replica on it has caught up once, and the
// node can tell the time. Otherwise it returns the reason.
func (n *Node) Ready() error {
	if reason := n.Barred(); reason != "" {
		return errors.New(reason)
	}
	state, refused := n.control.State(), n.member.Refused()
	switch {
	case len(state.Shards) == 0:
		return cmp.Or(n.member.NoRoom(), refused, errNoShards)
	case !n.control.IsCurrent(state) && refused == nil:
		return errors.New("this node has not caught up with the control group yet")
	}
	for _, s := range state.Shards {
		if len(s.Replicas) == 0 {
			return fmt.Errorf("shard %d has no place yet", s.Id)
		}
	}
	if err := n.replicas.Ready(state); err != nil {
		return err
	}
	if n.tenants.KeysVersion() == 0 {
		return errors.New("this node does not know the keys of its cluster yet: it has not caught up with the control group")
	}
	if _, sure := n.Now(); !sure {
		return errors.New("this node's clock has not been compared with the others': too few answer, or they are at odds")
	}
	return nil
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
	if n.control != nil {
		errs = append(errs, n.control.Close())
	}
	if n.disks != nil {
		errs = append(errs, n.disks.CloseAll())
	}
	if n.server != nil {
		n.server.stop()
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
	if n.records != nil {
		errs = append(errs, n.records.Close())
	}
	if n.journal != nil {
		errs = append(errs, n.journal.Close())
	}
	if n.identity != nil {
		errs = append(errs, n.identity.Close())
	}
	return errors.Join(errs...)
}
