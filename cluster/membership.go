package cluster

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/membership"
	"github.com/belfryhq/belfry/cluster/internal/reshape"
	"github.com/belfryhq/belfry/fsm"
)

// follow gets the node into a cluster and then follows the control group until ctx ends.
func (n *Node) follow(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n.workers.Go(func() {
		select {
		case <-n.admission.Aside():
			cancel()
			n.gossip.Leave()
		case <-n.ctx.Done():
		}
	})
	if !n.member.Enter(ctx) {
		return
	}
	for _, run := range []func(context.Context){
		n.member.Announce, n.member.KeepEntry, n.directory.Run, n.tenants.Run, n.keepTime, n.keepPlaced,
		n.keepHistory,
	} {
		n.workers.Go(func() { run(ctx) })
	}
	n.replicas.Follow(ctx)
}

// Barred returns the reason why the node does not take part in its cluster, as yet or at all. The reason is empty if
// the node takes part, or is in no cluster yet.
func (n *Node) Barred() string { return n.admission.Barred() }

// meshed is this node with its part in the mesh.
type meshed struct{ *Node }

// Mesh returns gossip, or nil before it runs.
func (m meshed) Mesh() membership.Mesh {
	if m.gossip == nil {
		return nil
	}
	return m.gossip
}

// entry returns this node's entry in the map of the control group.
func (n *Node) entry() *clusterpb.Node {
	return &clusterpb.Node{
		Id: n.ID(), Name: n.cfg.Name, PeerAddr: n.endpoint.Addr(), HttpAddr: n.cfg.HTTPAddr, Https: n.cfg.HTTPS,
		CommandVersion: fsm.CommandVersion, Boot: n.identity.Boot(), Zone: n.cfg.Zone, Weight: uint32(n.cfg.Weight),
	}
}

func (n *Node) newMember() *membership.Member {
	cfg := membership.Config{
		Identity: n.identity, Records: n.records, Disks: n.disks, Endpoint: n.endpoint, Gossip: n.gossip,
		Directory: n.directory, Admission: n.admission, Control: n.control, Peers: n.peers,
		Entry: n.entry(), Hold: n.cfg.HoldVersion, Run: n.runHere, Expect: n.cfg.BootstrapExpect,
		Pause: min(200*time.Millisecond, n.cfg.Timing.Heartbeat),
		Group: n.controlConfig(), Logger: n.cfg.Logger, Fatal: n.cfg.Fatal,
	}
	if n.cfg.Keys != nil {
		cfg.TokenFile = n.cfg.JoinTokenFile
	}
	return membership.New(cfg)
}

// controlConfig returns the settings of the control group that this node knows before it is in a cluster.
func (n *Node) controlConfig() control.Config {
	return control.Config{
		Plan:   control.Plan{Shards: n.cfg.Shards, Replication: n.cfg.Replication},
		Shards: moves{n}, Slots: n.router, Tasks: tasks{n},
		Limits: reshape.Limits{Calm: n.cfg.Calm, ReplaceAfter: n.cfg.ReplaceAfter}, StepPause: n.cfg.StepPause,
		AutoSplit: n.cfg.AutoSplit, Secrets: n.cfg.Secrets, Algorithms: n.cfg.JWTAlgorithms,
		Tokens: n.cfg.Keys != nil, Clock: n.cfg.Clock,
		Heartbeat: 2 * n.cfg.Timing.Heartbeat, Beat: n.cfg.Timing.Beat, Logger: n.cfg.Logger.With("group", "control"),
		Fatal: n.cfg.Fatal,
	}
}

// Tokens returns the one-time tokens of new nodes, to read and to change on this node. Nodes that show no certificates
// need none.
func (n *Node) Tokens() *control.Tokens { return n.tokens }
