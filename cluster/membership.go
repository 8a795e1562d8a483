package cluster

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/client/view"
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
	if n.NeedsJoinTokens() {
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
		AutoSplit: n.cfg.AutoSplit, Secrets: n.cfg.Secrets, Tokens: n.NeedsJoinTokens(), Clock: n.cfg.Clock,
		Heartbeat: 2 * n.cfg.Timing.Heartbeat, Logger: n.cfg.Logger.With("group", "control"), Fatal: n.cfg.Fatal,
	}
}

// NewJoinToken makes a one-time token, by which one new node may join the cluster within its life. Only the caller gets
// the token: no other node and no disk does. Errors are
// *task.FieldError, task.ErrNotProposed and task.ErrUnknown.
func (n *Node) NewJoinToken(ctx context.Context, life time.Duration) (view.NewJoinToken, error) {
	token := control.NewToken()
	add := &clusterpb.AddJoinToken{
		Token: &clusterpb.JoinToken{Hash: control.HashToken(token)}, ValidMs: life.Milliseconds(),
	}
	changed, err := n.control.Change(ctx, &clusterpb.ControlChange{Entry: &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_AddJoinToken{AddJoinToken: add},
	}})
	if err != nil {
		return view.NewJoinToken{}, err
	}
	return view.NewJoinToken{JoinToken: joinToken(changed.Token), Token: token, Required: n.NeedsJoinTokens()}, nil
}

// JoinTokens returns the one-time tokens that this node knows, by id. Tokens that have expired are among them for a
// while.
func (n *Node) JoinTokens() []view.JoinToken {
	var tokens []view.JoinToken
	for _, t := range n.control.State().JoinTokens {
		tokens = append(tokens, joinToken(t))
	}
	return tokens
}

// RemoveJoinToken removes a one-time token, and reports whether there was one; errors are those of NewJoinToken.
func (n *Node) RemoveJoinToken(ctx context.Context, id string) (existed bool, err error) {
	changed, err := n.control.Change(ctx, &clusterpb.ControlChange{Entry: &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_RemoveJoinToken{RemoveJoinToken: &clusterpb.RemoveJoinToken{Id: id}},
	}})
	return changed.GetExisted(), err
}

// NeedsJoinTokens reports whether a new node needs a one-time token: nodes that show no certificates need none.
func (n *Node) NeedsJoinTokens() bool { return n.cfg.Keys != nil }

func joinToken(t *clusterpb.JoinToken) view.JoinToken {
	token := view.JoinToken{
		ID: t.GetId(), Created: time.UnixMilli(t.GetCreatedMs()).UTC(), Expires: time.UnixMilli(t.GetExpiresMs()).UTC(),
		UsedBy: t.GetUsedBy(), UsedName: t.GetUsedName(),
	}
	if t.GetUsedMs() != 0 {
		token.Used = time.UnixMilli(t.UsedMs).UTC()
	}
	return token
}
