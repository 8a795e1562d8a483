package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/logs"
	"github.com/belfryhq/belfry/internal/wait"
)

// Config holds this node's metadata, and the sources of other nodes and of hints.
type Config struct {
	Self      *clusterpb.GossipMeta
	Transport Transport
	Keys      [][]byte // of 32 bytes; the first one encrypts, all decrypt. None: packets are not encrypted
	Directory Directory
	Leaders   Leaders
	Logger    *slog.Logger
}

// Transport carries the packets and streams of the mesh.
type Transport = memberlist.NodeAwareTransport

// Directory knows the nodes of the cluster. Its methods must not block.
type Directory interface {
	// JoinAddrs returns addresses to try: configured ones, and those of nodes known before.
	JoinAddrs() []string
	// IsKnown reports whether a node is in this node's cluster, and whether this node can be sure yet. While it cannot, a
	// few unknown nodes may join the mesh too.
	IsKnown(id string) (member, sure bool)
}

// Leaders are this node's beliefs about leaders. Its methods must not block.
type Leaders interface {
	// All returns the beliefs.
	All() []*clusterpb.LeaderHint
	// Take takes a belief of another node, and reports whether it was new.
	Take(hint *clusterpb.LeaderHint) bool
}

// label keeps this mesh apart from other products' and from later, incompatible builds'.
const label = "belfry-1"

// The intervals at which join addresses are tried: while this node is alone, and later, to mend a mesh that fell apart.
const (
	lonelyEvery = 500 * time.Millisecond
	mendEvery   = 10 * time.Second
)

// deadFor is how long memberlist remembers a dead member. A forged death may have an incarnation that the member cannot
// beat: then the member comes back only after this time.
const deadFor = 10 * time.Second

// Gossip is this node's membership in the mesh.
type Gossip struct {
	cfg     Config
	list    *memberlist.Memberlist
	queue   *memberlist.TransmitLimitedQueue
	keyring *memberlist.Keyring // nil: packets are not encrypted
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu      sync.Mutex
	self    *clusterpb.GossipMeta
	members map[string]*clusterpb.GossipMeta // by memberlist's name; this node included
	claims  map[string]*claim                // by memberlist's name; admitted starts, present or lately gone
	changed chan struct{}                    // closed at the next change of members
}

// Start enters the mesh, and keeps looking for other nodes until Close.
func Start(cfg Config) (*Gossip, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Logger = logs.Limited(cfg.Logger)
	g := &Gossip{
		cfg:     cfg,
		self:    proto.CloneOf(cfg.Self),
		members: make(map[string]*clusterpb.GossipMeta),
		claims:  make(map[string]*claim),
		changed: make(chan struct{}),
	}
	if n := proto.Size(g.self) + len(g.self.Id); n > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("gossip: name and addresses are too long: %d bytes of %d", n, memberlist.MetaMaxSize)
	}
	var err error
	if g.keyring, err = newKeyring(cfg.Keys); err != nil {
		return nil, err
	}
	// NumNodes is a function of the mesh: memberlist may call it before Create has returned.
	g.queue = &memberlist.TransmitLimitedQueue{RetransmitMult: 4, NumNodes: g.size}
	list, err := memberlist.Create(g.memberlistConfig())
	if err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	g.list = list
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	g.wg.Go(func() { g.keepJoining(ctx) })
	g.wg.Go(func() { g.keepAnnouncing(ctx) })
	return g, nil
}

// nameOf returns memberlist's name of one start of a node.
func nameOf(m *clusterpb.GossipMeta) string { return fmt.Sprintf("%s.%d", m.Id, m.Boot) }

func (g *Gossip) memberlistConfig() *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	c.Name = nameOf(g.self)
	transport := g.cfg.Transport
	if g.keyring == nil {
		transport = vet(transport)
	}
	c.Transport = transport
	c.EnableCompression = false // see vetted
	c.Label = label
	c.Keyring = g.keyring
	c.TCPTimeout = 3 * time.Second
	c.SuspicionMult = 3
	c.PushPullInterval = 15 * time.Second
	c.GossipToTheDeadTime = deadFor
	c.Delegate = delegate{g}
	c.Events = events{g}
	c.Alive = admission{g}
	c.ProtocolVersion = protocol
	c.Logger = logs.Memberlist(g.cfg.Logger)
	return c
}

// keepJoining tries the addresses of nodes that are not in the mesh.
func (g *Gossip) keepJoining(ctx context.Context) {
	for {
		if missing := g.missing(); len(missing) > 0 {
			if n, err := g.list.Join(missing); err != nil {
				g.cfg.Logger.Debug("no node to join", "addresses", missing, "joined", n, "err", err)
			}
		}
		every := mendEvery
		if g.size() <= 1 {
			every = lonelyEvery
		}
		if !wait.For(ctx, every) {
			return
		}
	}
}

func (g *Gossip) missing() []string {
	present := make(map[string]bool)
	for _, m := range g.Members() {
		present[m.PeerAddr] = true
	}
	addrs := slices.Compact(slices.Sorted(slices.Values(g.cfg.Directory.JoinAddrs())))
	return slices.DeleteFunc(addrs, func(a string) bool { return present[a] })
}

func (g *Gossip) size() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.members)
}

// Members returns the nodes that seem alive, this node included, each by the start that later prefers, sorted by id. It
// leaves out nodes of other clusters once this node is in one.
func (g *Gossip) Members() []*clusterpb.GossipMeta {
	members, _ := g.Watch()
	return members
}

// Watch returns Members, and a channel that is closed when they change.
func (g *Gossip) Watch() ([]*clusterpb.GossipMeta, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	latest := make(map[string]*clusterpb.GossipMeta)
	for _, m := range g.members {
		foreign := g.self.ClusterId != "" && m.ClusterId != "" && m.ClusterId != g.self.ClusterId
		if known := latest[m.Id]; !foreign && (known == nil || later(m, known)) {
			latest[m.Id] = m
		}
	}
	var members []*clusterpb.GossipMeta
	for _, m := range latest {
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b *clusterpb.GossipMeta) int {
		if a.Id < b.Id {
			return -1
		}
		return 1
	})
	return members, g.changed
}

// later reports whether start m is shown rather than start known of the same node. A start that takes part goes before
// one whose data folder is being checked, which may be a copy; otherwise the later start goes first.
func later(m, known *clusterpb.GossipMeta) bool {
	if m.TakesPart != known.TakesPart {
		return m.TakesPart
	}
	return m.Boot > known.Boot
}

// Starts returns the starts of a node among the members, latest first. Some may be over, or forged.
func (g *Gossip) Starts(id string) []*clusterpb.GossipMeta {
	g.mu.Lock()
	defer g.mu.Unlock()
	var starts []*clusterpb.GossipMeta
	for _, m := range g.members {
		if m.Id == id {
			starts = append(starts, m)
		}
	}
	slices.SortFunc(starts, func(a, b *clusterpb.GossipMeta) int { return cmp.Compare(b.Boot, a.Boot) })
	return starts
}

// EnterCluster publishes the cluster that this node has entered.
func (g *Gossip) EnterCluster(id string) error {
	g.mu.Lock()
	self := proto.CloneOf(g.self)
	self.ClusterId = id
	g.self = self
	g.mu.Unlock()
	if err := g.list.UpdateNode(time.Second); err != nil {
		return fmt.Errorf("gossip: %w", err)
	}
	return nil
}

// TakePart publishes that this node's data folder has been checked.
func (g *Gossip) TakePart() error {
	g.mu.Lock()
	self := proto.CloneOf(g.self)
	self.TakesPart = true
	g.self = self
	g.mu.Unlock()
	if err := g.list.UpdateNode(time.Second); err != nil {
		return fmt.Errorf("gossip: %w", err)
	}
	return nil
}

// Announce broadcasts the leader of a shard.
func (g *Gossip) Announce(hint *clusterpb.LeaderHint) {
	msg, err := proto.Marshal(&clusterpb.LeaderHints{ClusterId: g.clusterID(), Hints: []*clusterpb.LeaderHint{hint}})
	if err != nil {
		g.cfg.Logger.Error("a leader could not be announced", "shard", hint.Shard, "err", err)
		return
	}
	g.queue.QueueBroadcast(broadcast{shard: hint.Shard, msg: msg})
}

// announceEvery is the interval at which a node announces the shards that it leads. A node that joined later, missed
// the packet, or doubts the leader would otherwise learn it from an exchange of whole states, which can take half a
// minute.
const announceEvery = 3 * time.Second

// keepAnnouncing announces the shards that this node leads again and again.
func (g *Gossip) keepAnnouncing(ctx context.Context) {
	tick := time.NewTicker(announceEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for _, h := range g.cfg.Leaders.All() {
			if h.Leader == g.cfg.Self.Id {
				g.Announce(h)
			}
		}
	}
}

func (g *Gossip) clusterID() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.self.ClusterId
}

// Leave announces that this node leaves the mesh, and ends the search for other nodes. Close is still needed.
func (g *Gossip) Leave() {
	g.cancel()
	if err := g.list.Leave(500 * time.Millisecond); err != nil {
		g.cfg.Logger.Info("the others may not hear that this node leaves", "err", err)
	}
}

// Close announces that this node leaves, and ends its part in the mesh.
func (g *Gossip) Close() error {
	g.cancel()
	err := g.list.Leave(500 * time.Millisecond)
	err = errors.Join(err, g.list.Shutdown())
	g.wg.Wait()
	return err
}
