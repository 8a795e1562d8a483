package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cluster/internal/gossip"
	"github.com/belfryhq/belfry/cluster/internal/witness"
	"github.com/belfryhq/belfry/cluster/peer"
	"github.com/belfryhq/belfry/cluster/replicas"
	"github.com/belfryhq/belfry/internal/wait"
	"github.com/belfryhq/belfry/raftgroup/raftlog"
)

// Config holds the parts of a node that its membership needs.
type Config struct {
	Identity  *Identity
	Records   *witness.Table
	Disks     *Disks
	Endpoint  *peer.Endpoint
	Gossip    *gossip.Gossip
	Directory *Directory
	Admission *Admission
	Control   *control.Replica // gets the group when it runs
	// Group holds the settings of the control group, without those that the node learns when it enters its cluster: its
	// ids, the position that it had applied, the founders, and the ways to the disk and to other nodes.
	Group control.Config

	Peers Peers

	Entry  *clusterpb.Node // the correct entry of this node in the control group, which is not changed
	Hold   uint32          // command version that the node does not want to be exceeded; 0: none
	Run    witness.Run     // this start of the node
	Expect int             // nodes to form a cluster with, this one included; 0: join an existing one
	Pause  time.Duration   // between two tries to register the entry
	// TokenFile holds the token by which a new or renamed node gets into the cluster; empty: it has none.
	TokenFile string

	Logger *slog.Logger
	Fatal  func(error)
}

// Peers connects this node with others.
type Peers interface {
	// Peer returns the client of a node.
	Peer(node string) clusterpb.PeerClient
	// Witness asks the process at an address that claims to be this very node.
	Witness(ctx context.Context, addr string, req *clusterpb.WitnessRequest) (*clusterpb.WitnessReply, error)
}

// Member brings the node into its cluster and keeps its entry there. Its methods are safe for concurrent use.
type Member struct {
	cfg      Config
	rejoined bool                  // the node was in the cluster before its start; set by Enter
	refused  atomic.Pointer[error] // the last refusal of this node's registration; nil: the last one was not refused

	mu     sync.Mutex
	noRoom error // the full disk that last kept the node from entering a cluster; nil: none
}

// New returns the membership of a node that is in no group yet.
func New(cfg Config) *Member { return &Member{cfg: cfg} }

// Enter gets the node into a cluster, and reports whether the node takes part. It reports false if ctx has ended, if
// other nodes have refused the data folder, and after it has called Fatal.
func (m *Member) Enter(ctx context.Context) bool {
	enter := m.rejoin
	if m.cfg.Identity.ClusterID() == "" {
		enter = func(ctx context.Context) error { return m.withRoom(ctx, m.enterCluster) }
	}
	err := enter(ctx)
	if err == nil {
		return true
	}
	var refusal *witness.Refusal
	switch {
	case errors.As(err, &refusal):
		m.standAside(refusal)
	case ctx.Err() == nil:
		m.cfg.Fatal(fmt.Errorf("cluster: %w", err))
	}
	return false
}

// NoRoom returns the full disk that keeps the node from entering a cluster, or nil.
func (m *Member) NoRoom() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.noRoom
}

// withRoom calls enter again while it fails with a full disk. NoRoom returns that error meanwhile.
func (m *Member) withRoom(ctx context.Context, enter func(context.Context) error) error {
	for logged := false; ; logged = true {
		err := enter(ctx)
		full := m.noteRoom(err)
		if full == nil {
			return err
		}
		if !logged {
			m.cfg.Logger.Error("the disk is full", "err", full)
		}
		if !wait.For(ctx, replicas.OpenAgain) {
			return err
		}
	}
}

// noteRoom makes NoRoom return err if err is a full disk, and nil otherwise.
func (m *Member) noteRoom(err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noRoom = nil
	if headroom.IsDiskFull(err) {
		m.noRoom = fmt.Errorf("this node cannot enter a cluster yet, and tries again: %w", err)
	}
	return m.noRoom
}

// enterCluster forms a cluster with others or joins one, and opens the control group.
func (m *Member) enterCluster(ctx context.Context) error {
	err := form(ctx, formationConfig{
		Record: m.cfg.Identity, Expect: m.cfg.Expect, Nodes: m, Logger: m.cfg.Logger,
	})
	if err != nil {
		return err
	}
	m.newCheck()
	if err := m.openControl(); err != nil {
		return err
	}
	if err := m.cfg.Gossip.EnterCluster(m.cfg.Identity.ClusterID()); err != nil {
		m.cfg.Logger.Warn("the others do not hear yet that this node is in the cluster", "err", err)
	}
	return nil
}

func (m *Member) watch() ([]*clusterpb.GossipMeta, <-chan struct{}) { return m.cfg.Gossip.Watch() }

func (m *Member) askPromise(ctx context.Context, node string, p Promise) (*clusterpb.PromiseReply, error) {
	return m.cfg.Peers.Peer(node).Promise(ctx, &clusterpb.PromiseRequest{ClusterId: p.ClusterID, Nodes: p.Nodes})
}

// openControl opens this node's replica of the control group. The node that proposed a new cluster bootstraps the
// group; all other nodes receive the group's configuration from it.
func (m *Member) openControl() error {
	if m.cfg.Control.Group() == nil {
		if err := m.startControl(); err != nil {
			return err
		}
	}
	return m.cfg.Identity.RecordOpened(control.Number, 0)
}

func (m *Member) startControl() error {
	cfg := m.cfg.Group
	cfg.NodeID, cfg.Plan.ClusterID = m.cfg.Identity.NodeID(), m.cfg.Identity.ClusterID()
	cfg.Applied, cfg.Bootstrap = m.cfg.Records.Kept(control.Number).Index, m.bootstrapList()
	disk, err := m.cfg.Disks.Get(control.Number)
	if err != nil {
		return err
	}
	transport, err := m.cfg.Endpoint.Raft(control.Number, cfg.Plan.ClusterID, raftlog.New(cfg.Logger))
	if err != nil {
		return err
	}
	cfg.Storage, cfg.Transport = disk, transport
	g, err := control.Open(cfg)
	if err != nil {
		return errors.Join(err, transport.Close(), m.cfg.Disks.Close(control.Number))
	}
	m.cfg.Records.Follow(control.Number, g.Position)
	m.cfg.Control.Set(g)
	return nil
}

// bootstrapList returns the voters of a new control group if this node bootstraps it, and nil otherwise.
func (m *Member) bootstrapList() []string {
	founders := m.cfg.Directory.Founders()
	if len(founders) > 0 && founders[0] == m.cfg.Identity.NodeID() && !m.cfg.Identity.Opened(control.Number) {
		return founders
	}
	return nil
}
