package sim

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/sim/internal/disk"
	"github.com/belfryhq/belfry/chaos/sim/internal/wire"
	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clocks"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/consume"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/replicas"
	"github.com/belfryhq/belfry/cluster/router"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/wait"
	"github.com/belfryhq/belfry/shard"
)

// Node is a machine on which one process runs after the other. Its clock and disks outlive the processes.
type Node struct {
	world *World
	name  string
	clock *clock
	files *files

	mu      sync.Mutex
	process *process // the process that runs; nil: none
}

// process is one life of a node: a belfry process without HTTP, gossip, membership and the control group.
type process struct {
	world     *World
	node      *Node
	host      *wire.Host
	leaders   *calls.Beliefs
	router    *router.Router
	consumers *consume.Consumers
	clocks    *clocks.Clocks
	policies  policies
	view      *register[*clusterpb.ControlState] // what the process knows of the decisions, perhaps a little old
	replicas  *replicas.Set
	table     *calls.Table
	following context.Context // ends when replicas are to be opened and closed no more
	unfollow  context.CancelFunc
	followed  chan struct{} // closed when no replica is opened or closed any more
}

// replica is the replica of one shard in a process.
type replica struct {
	id    uint32
	shard *shard.Shard
}

// running returns the process that runs, or nil.
func (n *Node) running() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}

// start starts a process unless one runs already. The process opens its replicas soon.
func (n *Node) start() {
	p := n.begin()
	if p == nil {
		return
	}
	n.world.wg.Go(p.keepTime)
	n.world.wg.Go(p.hearPolicies)
	n.world.wg.Go(p.hearDecisions)
	n.world.wg.Go(func() {
		defer close(p.followed)
		p.replicas.Follow(p.following)
	})
}

// begin makes a process whose replicas are not open yet. It returns nil if a process runs already or the world has
// ended.
func (n *Node) begin() *process {
	w := n.world
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil || w.ctx.Err() != nil {
		return nil
	}
	// In production a node asks others for the decisions before it opens replicas (package witness).
	state, version, _ := w.decisions.read()
	p := &process{
		world: w, node: n, host: w.net.Up(n.name), leaders: calls.NewBeliefs(), followed: make(chan struct{}),
		policies: policies{newRegister[[]*fsmpb.QueuePolicy](nil, 0)}, view: newRegister(state, version),
	}
	p.following, p.unfollow = context.WithCancel(p.host.Life())
	p.router = router.New(router.Config{
		Self: n.name, Control: p, Nodes: p, Leaders: p.leaders,
	})
	p.replicas = p.newReplicas()
	p.table = calls.NewTable(p.replicas.Do, p.replicas.Handlers()...)
	p.consumers = consume.New(consume.Config{
		Self: n.name, Control: p, Replicas: p.replicas, Nodes: p, Leaders: p.leaders, Router: p.router,
	})
	p.clocks = clocks.Start(clocks.Config{
		Self: n.name, Clock: n.clock.now, Directory: p, Peers: p, Interval: max(time.Second, w.cfg.pace.heartbeat/2),
	})
	n.process = p
	return p
}

// Open opens the replica of one shard. A failure is a problem unless the process has ended meanwhile.
func (p processFiles) Open(_ *clusterpb.ControlState, placed *clusterpb.Shard) (*shard.Shard, error) {
	w, n := p.world, p.node
	d := p.claim(placed)
	stores := d.Open(p.host, diskPatience, p.fatal)
	cfg := shard.Config{
		ID: placed.Id, NodeID: n.name, Existing: !d.Empty(),
		Replicas: replicas.Founders(placed), Preferred: placed.Preferred,
		Transport: p.host.Transport(placed.Id, w.cfg.pace.rpcTimeout()),
		Storage:   stores, Node: p, Deliver: deliverer{p.process}, Policies: p.policies, Limits: p.router, Router: p.router,
		Clock: n.clock.now, Clocks: p.clocks, Consumers: p.consumers,
		Fatal: p.fatal, Timing: w.cfg.pace.timing(), Policy: policy(), Logger: p.logger(),
		SnapshotLog: w.cfg.SnapshotLog, SnapshotPart: w.cfg.SnapshotPart, SnapshotTail: w.cfg.SnapshotTail,
	}
	s, err := shard.Open(cfg)
	if err != nil && p.host.Life().Err() == nil {
		w.problem("%s: shard %d does not open: %v", n.name, placed.Id, err)
	}
	return s, err
}

// logger returns the logger of a process.
func (p *process) logger() *slog.Logger {
	if p.world.cfg.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return p.world.cfg.Logger.With("node", p.node.name)
}

// policy returns the policy of production, except that finished tasks stay readable for the whole run: the checks need
// their tombstones.
func policy() shard.Policy { return shard.Policy{KeepDone: 365 * 24 * time.Hour} }

func (p *process) shard(id uint32) (*shard.Shard, error) { return p.replicas.Find(id) }

func (p *process) all() []replica {
	var all []replica
	for _, s := range p.replicas.All() {
		all = append(all, replica{s.ID(), s})
	}
	slices.SortFunc(all, func(a, b replica) int { return int(a.id) - int(b.id) })
	return all
}

// fatal ends the process because of err, as in production.
func (p *process) fatal(err error) {
	w := p.world
	if p.host.Life().Err() != nil {
		return // the process has ended already
	}
	w.ended(p.node, err)
	p.node.crashOf(p)
}

// crash ends the node's process at once, in the middle of its work.
func (n *Node) crash() {
	if p := n.running(); p != nil {
		n.crashOf(p)
	}
}

func (n *Node) crashOf(p *process) {
	n.mu.Lock()
	if n.process != p {
		n.mu.Unlock()
		return
	}
	n.process = nil
	p.host.Down()
	for _, d := range n.files.all() {
		d.Crash()
	}
	n.mu.Unlock()
	n.world.count(func(f *Figures) { f.Crashes++ })
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	n.world.wg.Go(func() { p.bury(gone) })
}

// stop ends the node's process in order.
func (n *Node) stop(ctx context.Context) {
	p := n.running()
	if p == nil {
		return
	}
	p.bury(ctx)
	n.crashOf(p)
}

// bury closes the parts of a process. The shards give up an orderly end when ctx ends.
func (p *process) bury(ctx context.Context) {
	p.unfollow()
	<-p.followed
	p.consumers.Close()
	p.clocks.Close()
	var wg sync.WaitGroup
	for _, r := range p.all() {
		wg.Go(func() {
			if err := r.shard.Close(ctx); err != nil {
				p.world.problem("%s: shard %d closed with %v", p.node.name, r.id, err)
			}
		})
	}
	wg.Wait()
}

// State returns the decisions that the process knows.
func (p *process) State() *clusterpb.ControlState { return p.view.now() }

// IsAlone reports whether the world has no other node.
func (p *process) IsAlone() bool { return len(p.world.nodes) == 1 }

// Nodes returns the names of all nodes.
func (p *process) Nodes() []string {
	var names []string
	for _, n := range p.world.nodes {
		names = append(names, n.name)
	}
	return names
}

// Alive reports whether a process runs on a node now, frozen or not. It stands for the hint that gossip gives in
// production.
func (p *process) Alive(node string) bool {
	for _, n := range p.world.nodes {
		if n.name == node {
			return n.running() != nil
		}
	}
	return false
}

// MayWrite returns nil: all processes are of this build.
func (processFiles) MayWrite(uint32) error { return nil }

// MayLead reports whether a node is up, if the world's leaders learn that.
func (p processFiles) MayLead(_ uint32, node string) bool { return !p.world.cfg.Alive || p.Alive(node) }

// Began does nothing.
func (processFiles) Began(string, string, time.Duration) {}

// Weight returns 1: all namespaces weigh the same.
func (processFiles) Weight(string) int { return 1 }

// Fits reports that the disk has room.
func (processFiles) Fits(int64) bool { return true }

// OnLeader records the leader that a replica of this process has seen. It tells the other nodes if the leader is this
// node.
func (p processFiles) OnLeader(c shard.Change) {
	if p.host.Life().Err() != nil {
		return
	}
	p.world.noteTerm(c.Shard, c.Term, c.Leader)
	if !p.leaders.Note(c.Shard, c.Term, c.Leader) || c.Leader != p.node.name {
		return
	}
	for _, n := range p.world.nodes {
		if n != p.node {
			p.world.wg.Go(func() { p.hint(n.name, c) })
		}
	}
}

// hint sends a change of leader to another node, in place of gossip. A message that is lost is not sent again.
func (p *process) hint(node string, c shard.Change) {
	ctx, cancel := context.WithTimeout(p.host.Life(), time.Second)
	defer cancel()
	_, _ = askThere(ctx, p, node, func(_ context.Context, other *process) (bool, error) {
		return other.leaders.Hint(c.Shard, c.Term, c.Leader), nil
	})
}

// keepTime transfers this node's leaderships to other nodes while its clock is apart from the others' clocks.
func (p *process) keepTime() {
	look := max(5*time.Second, p.world.cfg.pace.heartbeat)
	for wait.For(p.host.Life(), look) {
		if _, apart := p.clocks.Apart(); !apart || !p.host.Gate() {
			continue
		}
		for _, r := range p.all() {
			if r.shard.IsLeader() {
				p.giveAway(r)
			}
		}
	}
}

func (p *process) giveAway(r replica) {
	ctx, cancel := context.WithTimeout(p.host.Life(), max(5*time.Second, p.world.cfg.pace.heartbeat))
	defer cancel()
	for _, to := range control.Shard(p.view.now(), r.id).GetReplicas() {
		if to != p.node.name && p.Alive(to) && r.shard.Transfer(ctx, to) == nil {
			return
		}
	}
}

// clock is the wall clock of one node. The monotonic clock is the bubble's, and right on every node.
type clock struct {
	mu    sync.Mutex
	since time.Time     // when ahead and ppm were set
	ahead time.Duration // lead over true time at since
	ppm   float64       // gain since then, in microseconds per second
}

func newClock() *clock { return &clock{since: time.Now()} }

// now returns the reading of the clock, without a monotonic part.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	return now.Add(c.offset(now)).Round(0)
}

func (c *clock) offset(now time.Time) time.Duration {
	return c.ahead + time.Duration(float64(now.Sub(c.since))*c.ppm/1e6)
}

// set moves the clock ahead of true time by the given duration, and lets it gain ppm from now on.
func (c *clock) set(ahead time.Duration, ppm float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since, c.ahead, c.ppm = time.Now(), ahead, ppm
}

// files are the disks of a node, one for each shard, and the node's durable record of the replicas on them. They
// outlive processes.
type files struct {
	world *World
	node  int // index of the node

	mu     sync.Mutex
	disks  map[uint32]*disk.Disk // by shard
	joined map[uint32]uint64     // revisions at which the replicas on the disks joined; see clusterpb.Shard
}

func newFiles(w *World, node int) *files {
	return &files{world: w, node: node, disks: map[uint32]*disk.Disk{}, joined: map[uint32]uint64{}}
}

// disk returns the disk of a shard's replica. It makes an empty one at the first call.
func (f *files) disk(id uint32) *disk.Disk {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.disks[id] == nil {
		nodes := f.world.cfg.Nodes
		place := (f.node + nodes - int(id)%nodes) % nodes
		f.disks[id] = disk.New(f.world.cfg.Seed<<8|uint64(id)<<4|uint64(place), f.world.cfg.disk)
		f.disks[id].Watch(func(r disk.Reconfiguration) { f.world.members.judge(id, r) })
	}
	return f.disks[id]
}

// all returns the disks.
func (f *files) all() []*disk.Disk {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.disks))
}

// held returns the shards that have files.
func (f *files) held() []uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	var held []uint32
	for id, d := range f.disks {
		if !d.Empty() {
			held = append(held, id)
		}
	}
	slices.Sort(held)
	return held
}

// joinedAt returns the revision at which the replica of a shard joined whose files are on the disk.
func (f *files) joinedAt(id uint32) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.joined[id]
}

func (f *files) recordJoined(id uint32, joined uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.joined[id] = joined
}

// newReplicas returns the set of a process's replicas. None is open yet.
func (p *process) newReplicas() *replicas.Set {
	return replicas.New(replicas.Config{
		Self: p.node.name, Control: stateView{p.view}, Files: processFiles{p}, Leaders: p.leaders, Logger: p.logger(),
		Moves: faulty{p.world, p.router}, Changed: func() {},
	})
}

// stateView is a process's knowledge of the decisions.
type stateView struct {
	*register[*clusterpb.ControlState]
}

// IsCurrent returns true: a view never goes back to an earlier state.
func (stateView) IsCurrent(*clusterpb.ControlState) bool { return true }

// processFiles are the files of the replicas of one process.
type processFiles struct{ *process }

// Opened does nothing: claim has recorded the replica.
func (processFiles) Opened(*shard.Shard, *clusterpb.Shard) error { return nil }

func (p processFiles) Held() []uint32 { return p.node.files.held() }

func (p processFiles) Joined(id uint32) uint64 { return p.node.files.joinedAt(id) }

// IsOver returns false: see stateView.IsCurrent.
func (processFiles) IsOver(uint32, uint64) bool { return false }

// claim returns the disk of a replica that is about to be opened. It is a problem if the disk has the files of an
// earlier replica, which was removed: that replica has voted, and its log may differ from the group's.
func (p *process) claim(placed *clusterpb.Shard) *disk.Disk {
	files, joined := p.node.files, placed.Joined[p.node.name]
	d := files.disk(placed.Id)
	if was := files.joinedAt(placed.Id); !d.Empty() && was < joined {
		p.world.problem("%s opens the files of a removed replica of shard %d: it joined at revision %d, and they at %d",
			p.node.name, placed.Id, joined, was)
	}
	files.recordJoined(placed.Id, joined)
	return d
}

// Leave deletes the files of a replica that has moved away.
func (p processFiles) Leave(id uint32) error {
	if !p.host.Sleep(p.world.cfg.disk.Delay) || !p.host.Gate() {
		return wire.ErrDown
	}
	p.node.mu.Lock()
	defer p.node.mu.Unlock()
	if p.node.process != p.process {
		return wire.ErrDown
	}
	p.world.members.leaves(id, p.node.name)
	p.node.files.disk(id).Wipe()
	return nil
}
