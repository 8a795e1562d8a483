package stand

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/lossyfs"
	"github.com/belfryhq/belfry/chaos/netlab"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
)

// Config describes a stand. Binary and Dir must be given.
type Config struct {
	Binary string // path of the belfry program
	Dir    string // folder of the nodes' data and logs
	Nodes  int    // default 3
	Spare  int    // further nodes, which may join the cluster later; only with 1, 3 or 5 nodes
	Shards int    // default 3
	Zones  int    // over which the nodes are spread evenly; 0: each node is a zone of its own
	Args   []string
	Env    []string // of every node, as NAME=value
	Seed   uint64   // of random choices on the stage

	// ReplaceAfter is the time after which others make the replicas of an absent node anew; 0: the nodes' default. It
	// needs a Binary with the tag chaos.
	ReplaceAfter time.Duration

	// Other is a newer build of belfry, which nodes can change to and back; empty: there is none. It holds the command
	// version of Binary.
	Other string

	// Keys demands a key of each call. Cluster.KeyFile names an admin key that was made through the API. The last node has
	// no root key on loopback: it demands keys only because the cluster has them in force.
	Keys bool

	Network bool // each node on its own host; see netlab.Supported
	Disks   bool // each node on its own disk, which can fail; see lossyfs.Supported
	Clocks  bool // each node with a wall clock that can be set; needs a Binary with the tag chaos
	Gossip  bool // each node with gossip that can be lost; needs a Binary with the tag chaos
	Memory  bool // each node in a control group that can bound its memory; see MemorySupported

	// Descriptors is the number of files that each node may open. It is 0 unless this program may open twice as many.
	Descriptors int
}

// Stand is a running cluster on its stage.
type Stand struct {
	Cluster  *local.Cluster
	Network  *netlab.Network          // nil: the nodes are on loopback
	Disks    map[string]*lossyfs.Disk // by node; nil: their data is on this machine's disk
	Clocks   map[string]*Shared       // by node: nanoseconds by which its wall clock is ahead; nil: none can be set
	Gossip   map[string]*Shared       // by node: 1 loses its gossip in both directions; nil: gossip cannot be lost
	Memories map[string]*Memory       // by node; nil: memory is not bounded
	Logs     *Logs

	// Descriptors is the number of files that each node may open; 0: as many as this program.
	Descriptors int

	client *client.Client
	own    local.Build // of all nodes at first
	other  local.Build // without a program: there is none

	changes      bool // some nodes are not in the cluster from the start
	replaceAfter time.Duration
	zones        [][]string // nodes by zone; nil: each node is a zone of its own

	mu      sync.Mutex // guards the fields below
	strays  []string   // nodes that run the other build
	claimed []string   // nodes and other targets that a fault holds
	spare   []string   // nodes that are not in the cluster
}

const viewTimeout = 5 * time.Second

// heldVersion is the command version of Config.Binary, which the other build holds.
const heldVersion = "1"

// Open starts a cluster, and returns when all its nodes are ready.
func Open(ctx context.Context, cfg Config) (s *Stand, err error) {
	if cfg.Binary == "" || cfg.Dir == "" {
		return nil, errors.New("stand: Binary and Dir must be given")
	}
	cfg.Nodes, cfg.Shards = cmp.Or(cfg.Nodes, 3), cmp.Or(cfg.Shards, 3)
	if cfg.Network { // the nodes' networks are closed: nothing but the stand is in the proxy's place
		cfg.Args = append(slices.Clone(cfg.Args), "--behind-proxy")
	}
	s = &Stand{own: local.Build{Binary: cfg.Binary}}
	if cfg.Other != "" {
		s.other = local.Build{Binary: cfg.Other, Args: []string{"--hold-version", heldVersion}}
	}
	defer func() {
		if err != nil {
			s, err = nil, errors.Join(err, s.Close())
		}
	}()
	places := make([]local.Place, cfg.Nodes+cfg.Spare)
	for i := range places {
		places[i].Env = slices.Clone(cfg.Env)
		if cfg.ReplaceAfter > 0 {
			places[i].Env = append(places[i].Env, "BELFRY_REPLACE_AFTER="+cfg.ReplaceAfter.String())
		}
	}
	founders := 0 // all nodes
	if cfg.Spare > 0 {
		founders = cfg.Nodes
	}
	s.zones, s.replaceAfter = setZones(cfg.Zones, places), cfg.ReplaceAfter
	part := func(wanted bool, open func() error) {
		if wanted && err == nil {
			err = open()
		}
	}
	part(cfg.Network, func() (err error) { s.Network, err = openNetwork(ctx, cfg, places); return err })
	part(cfg.Disks, func() (err error) { s.Disks, err = openDisks(cfg, places); return err })
	part(cfg.Clocks, func() (err error) { s.Clocks, err = shareClocks(cfg.Dir, places); return err })
	part(cfg.Gossip, func() (err error) { s.Gossip, err = shareGossip(cfg.Dir, places); return err })
	part(cfg.Memory, func() (err error) { s.Memories, err = openMemories(places); return err })
	if err != nil {
		return s, err
	}
	if cfg.Descriptors > 0 && mayExhaust(cfg.Descriptors) {
		s.Descriptors = cfg.Descriptors
		boundDescriptors(s.Descriptors, places)
	}
	if cfg.Keys && !cfg.Network {
		withoutRootKey(&places[cfg.Nodes-1])
	}
	s.Cluster, err = local.Start(ctx, local.Config{
		Binary: cfg.Binary, DataDir: cfg.Dir, Places: places, Auth: cfg.Network || cfg.Keys,
		Nodes: cfg.Nodes + cfg.Spare, Founders: founders,
		ExtraArgs: slices.Concat([]string{"--shards", strconv.Itoa(cfg.Shards)}, cfg.Args),
	})
	if err != nil {
		return s, err
	}
	if cfg.Keys {
		if err := putKeysInForce(ctx, s.Cluster); err != nil {
			return s, err
		}
	}
	s.Logs = newLogs(s.Cluster.Nodes())
	s.spare, s.changes = names(cfg.Nodes + cfg.Spare)[cfg.Nodes:], cfg.Spare > 0
	s.client, err = client.New(client.Config{
		Addrs: s.Cluster.URLs(), KeyFile: s.Cluster.KeyFile(), Timeout: viewTimeout, AttemptTimeout: viewTimeout / 5,
	})
	return s, err
}

// Close stops the cluster, and takes the stage down.
func (s *Stand) Close() error {
	var errs []error
	for _, d := range s.Disks {
		d.Heal() // a bad disk could keep a node from stopping
	}
	if s.Network != nil {
		errs = append(errs, s.Network.Heal()) // a bad network could slow the stop
	}
	if s.Cluster != nil {
		s.Cluster.Stop()
	}
	errs = append(errs, closeAll(s.Clocks), closeAll(s.Gossip), closeAll(s.Memories))
	for _, d := range s.Disks {
		errs = append(errs, d.Close())
	}
	if s.Network != nil {
		errs = append(errs, s.Network.Close())
	}
	return errors.Join(errs...)
}

// Names returns the names of the nodes in the cluster.
func (s *Stand) Names() []string {
	spare := s.Spare()
	return slices.DeleteFunc(names(len(s.Cluster.Nodes())), func(n string) bool { return slices.Contains(spare, n) })
}

// Claim takes nodes for one fault, so that no other fault starts or stops them meanwhile. It takes none if one of them
// is taken.
func (s *Stand) Claim(nodes ...string) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(nodes, func(n string) bool { return slices.Contains(s.claimed, n) }) {
		return nil, false
	}
	s.claimed = append(s.claimed, nodes...)
	return sync.OnceFunc(func() { s.release(nodes) }), true
}

func (s *Stand) release(nodes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimed = slices.DeleteFunc(s.claimed, func(n string) bool { return slices.Contains(nodes, n) })
}

// View returns the cluster's state as one of the nodes sees it.
func (s *Stand) View(ctx context.Context) (*client.Cluster, error) {
	view, err := s.client.Cluster(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking for the cluster's state: %w", err)
	}
	return view, nil
}

// Leaders returns the name of each shard's leader. It leaves out shards without a known leader.
func (s *Stand) Leaders(ctx context.Context) (map[uint32]string, error) {
	view, err := s.View(ctx)
	if err != nil {
		return nil, err
	}
	return LeadersIn(view), nil
}

// LeadersIn returns the name of each shard's leader. It leaves out shards without a known leader.
func LeadersIn(view *client.Cluster) map[uint32]string {
	leaders := map[uint32]string{}
	for _, shard := range view.Shards {
		if node := view.Node(shard.Leader); node != nil {
			leaders[shard.ID] = node.Name
		}
	}
	return leaders
}

// LedBy returns the shards that the nodes lead now, in order. It returns none if no node answers.
func (s *Stand) LedBy(ctx context.Context, nodes ...string) []uint32 {
	leaders, err := s.Leaders(ctx)
	if err != nil {
		return nil
	}
	var led []uint32
	for shard, leader := range leaders {
		if slices.Contains(nodes, leader) {
			led = append(led, shard)
		}
	}
	slices.Sort(led)
	return led
}
