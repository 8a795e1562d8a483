package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/cluster/placement"
)

// These are limits of the code and of common sense.
const (
	MaxShards  = 256 // most shards of a cluster
	mostGroups = 64  // most replicas of one process; the Raft library is made for tens
	mostNodes  = MaxShards
	shardBlobs = 12 << 30 // bytes of payloads and targets in one shard; its addresses end at 16 GiB
	formable   = 5        // most nodes that may form a cluster; others join it later
	tried      = 50       // most nodes that the design was examined for
)

// target is the part of a resource that a plan uses, on an ordinary day and after a loss.
type target struct{ usual, lost float64 }

var targets = map[string]target{
	Memory:        {limitPart * fullPart, limitPart * fullPart},
	CPU:           {0.50, 0.75},
	Network:       {0.50, 0.75},
	DiskWrite:     {0.50, 0.75},
	DiskSpace:     {0.70, 0.70},
	Syncs:         {0.50, 0.75},
	ShardCommands: {0.50, 0.50},
	ShardMemory:   {1, 1},
	Groups:        {1, 1},
}

// Names of the resources.
const (
	Memory        = "memory"
	CPU           = "processor"
	Network       = "network"
	DiskWrite     = "disk writes"
	DiskSpace     = "disk space"
	Syncs         = "fsyncs"
	ShardCommands = "commands a shard"
	ShardMemory   = "memory a shard"
	Groups        = "replicas a node"
)

// Need is the use of one resource by the busiest node or the busiest shard.
type Need struct {
	Resource string  `json:"resource"`
	Unit     string  `json:"unit"`
	Usual    float64 `json:"usual"`
	Lost     float64 `json:"lost"`  // the use after a node or a zone is lost
	Have     float64 `json:"have"`  // the amount that the machine or a shard has
	Allow    float64 `json:"allow"` // the part of Have that an ordinary day may use
	AllowOf  float64 `json:"allow_lost"`
	Parts    []Part  `json:"parts"` // the parts of Usual
}

// Share returns the used share of the allowed amount. A plan is valid while it is at most 1.
func (n Need) Share() float64 { return max(n.Usual/n.Allow, n.Lost/n.AllowOf) }

func need(resource, unit string, have float64, usual, lost []Part) Need {
	t := targets[resource]
	return Need{
		Resource: resource, Unit: unit, Usual: sum(usual), Lost: sum(lost), Have: have,
		Allow: have * t.usual, AllowOf: have * t.lost, Parts: usual,
	}
}

// Plan is the number of nodes that a load needs, with its reasons.
type Plan struct {
	Workload Workload `json:"workload"`
	Machine  Machine  `json:"machine"`
	Nodes    int      `json:"nodes"`
	Shards   int      `json:"shards"`
	Leads    int      `json:"leads"`    // shards that each node leads
	Replicas int      `json:"replicas"` // replicas that each node holds
	Lost     int      `json:"lost"`     // nodes that may be lost at once
	Needs    []Need   `json:"needs"`    // the limiting need first
	Facts    Facts    `json:"facts"`
	Warnings []string `json:"warnings"`
	Serve    []string `json:"serve"` // the command for the first node
}

// Facts are further figures of a plan.
type Facts struct {
	TaskBytes   float64 `json:"task_bytes"`   // in the memory of each replica
	Wait        float64 `json:"wait"`         // seconds that a task waits on average
	KeepDone    float64 `json:"keep_done"`    // seconds for which tombstones are really kept
	Entries     float64 `json:"entries"`      // a second and shard
	Syncs       float64 `json:"syncs"`        // a second and node, when the disk is quick
	Restart     float64 `json:"restart"`      // seconds until a restarted node has its tasks back
	Memory      float64 `json:"memory"`       // bytes, of all nodes together
	DiskSpace   float64 `json:"disk_space"`   // bytes, of all nodes together
	Idle        Idle    `json:"idle"`         // of one node
	Inheritance float64 `json:"inheritance"`  // shards that the busiest node leads after a loss
	LogCapped   bool    `json:"log_capped"`   // snapshots cannot keep up: logs get longer than states
	PerSchedule float64 `json:"per_schedule"` // µs of processor that a schedule and its fire cost, over all nodes
}

// Make returns the smallest plan for the load.
func Make(w Workload, m Machine, c Costs) (Plan, error) {
	if err := errors.Join(w.Validate(), m.Validate()); err != nil {
		return Plan{}, err
	}
	p, err := smallest(w, m, c, mostNodes)
	if err != nil {
		return Plan{}, err
	}
	p.Warnings = p.warnings(c)
	p.Serve = p.commands()
	return p, nil
}

// smallest returns the plan with the fewest nodes, at most most. It tries the numbers of nodes in ascending order.
func smallest(w Workload, m Machine, c Costs, most int) (Plan, error) {
	last := Need{Resource: Groups}
	for nodes := 1; nodes <= most; nodes++ {
		if !possible(nodes, w.Replication) {
			continue
		}
		for _, s := range shapes(nodes, w.Replication, m) {
			if usual := c.nodeOf(w, m, s, 0, float64(s.perNode)); !fits(needs(m, c, usual, usual)) {
				last = needs(m, c, usual, usual)[0]
				continue // skip the check of a loss, which takes longer
			}
			p, err := evaluate(w, m, c, s)
			if err != nil {
				return Plan{}, err
			}
			if p.Fits() {
				return p, nil
			}
			last = p.Needs[0]
		}
	}
	return Plan{}, fmt.Errorf("no plan: even with %d nodes %s", most, last.complaint())
}

// shapes returns the shapes to try, best first: from the default number of shards upwards, as few as will do, then
// downwards. They include every number of shards that a process can hold. A smaller machine therefore has no choice
// that a larger one lacks.
func shapes(nodes, replication int, m Machine) []shape {
	var more, fewer []shape
	least := defaultLeads(nodes, m)
	for perNode := 1; perNode <= MaxShards/nodes; perNode++ {
		s := shape{nodes: nodes, replication: replication, perNode: perNode}
		switch {
		case s.replicas() > mostGroups:
		case perNode < least:
			fewer = append(fewer, s)
		default:
			more = append(more, s)
		}
	}
	slices.Reverse(fewer)
	return append(more, fewer...)
}

// possible reports whether this many nodes can form a cluster with all replicas. One, three or five nodes form a
// cluster, and more may join. Fewer nodes than wanted replicas would hold fewer replicas.
func possible(nodes, replication int) bool {
	return nodes >= replication && nodes != 2 && nodes != 4
}

// defaultLeads returns the number of shards that each node leads in a cluster that is formed without --shards.
func defaultLeads(nodes int, m Machine) int {
	return min(placement.Shards(nodes, m.Cores), MaxShards) / nodes
}

func (n Need) complaint() string {
	return fmt.Sprintf("%s would be too little: %.3g %s are needed, %.3g are there, of which %.3g are for an ordinary day",
		n.Resource, n.Usual, n.Unit, n.Have, n.Allow)
}

// Fits reports whether the plan uses no resource beyond the allowed amount.
func (p Plan) Fits() bool { return fits(p.Needs) }

func fits(sorted []Need) bool { return sorted[0].Share() <= 1 }

// evaluate returns the plan of one shape, with the most used resource first.
func evaluate(w Workload, m Machine, c Costs, s shape) (Plan, error) {
	lost := s.lost(w.Zones)
	after, err := s.leadersAfter(lost)
	if err != nil {
		return Plan{}, err
	}
	usual := c.nodeOf(w, m, s, 0, float64(s.perNode))
	left := c.nodeOf(w, m, s, lost, after)
	p := Plan{
		Workload: w, Machine: m, Nodes: s.nodes, Shards: s.shards(), Leads: s.perNode, Replicas: s.replicas(), Lost: lost,
		Needs: needs(m, c, usual, left),
	}
	p.Facts = p.facts(c, usual, left)
	return p, nil
}

// needs returns the needs of the busiest node, the scarcest resource first.
func needs(m Machine, c Costs, usual, left node) []Need {
	one := func(what string, value float64) []Part { return []Part{{what, value}} }
	s := usual.shard
	blobs := s.tasks * (c.taskBytes(usual.work) - c.value(taskMemory))
	all := []Need{
		need(Memory, "bytes", m.Memory, usual.memory(), left.memory()),
		need(CPU, "cores", m.Cores, usual.cpu(), left.cpu()),
		need(Network, "bytes/s", m.Network, usual.network(), left.network()),
		need(DiskWrite, "bytes/s", m.DiskWrite, usual.diskWrite(), left.diskWrite()),
		need(DiskSpace, "bytes", m.Disk, usual.diskSpace(), left.diskSpace()),
		need(Syncs, "1/s", m.Syncs, usual.syncs(), left.syncs()),
		need(ShardCommands, "1/s", c.value(shardCommands), one("commands", s.commands()), one("commands", s.commands())),
		need(ShardMemory, "bytes", shardBlobs, one("blobs", blobs), one("blobs", blobs)),
		need(Groups, "", mostGroups, one("replicas", usual.replicas), one("replicas", left.replicas)),
	}
	slices.SortStableFunc(all, func(a, b Need) int { return cmp.Compare(b.Share(), a.Share()) })
	return all
}

// Need returns the plan's need of a resource.
func (p Plan) Need(resource string) Need {
	for _, n := range p.Needs {
		if n.Resource == resource {
			return n
		}
	}
	return Need{}
}

func (p Plan) facts(c Costs, usual, left node) Facts {
	s, w := usual.shard, p.Workload
	f := Facts{
		TaskBytes: c.taskBytes(w), KeepDone: w.KeepDone.Seconds(), Entries: s.entries, Syncs: usual.syncsWanted(),
		Restart: usual.restart(p.Machine), Idle: usual.idle, Inheritance: left.leads,
		Memory:    float64(p.Nodes) * p.Need(Memory).Usual,
		DiskSpace: float64(p.Nodes) * p.Need(DiskSpace).Usual,
		LogCapped: usual.logLength() > 2*max(snapshotLeast, s.state),
	}
	if w.Rate > 0 {
		f.Wait = w.Tasks / w.Rate
		f.PerSchedule = float64(p.Nodes) * (p.Need(CPU).Usual - usual.idle.CPU) * 1e6 / w.Rate
	}
	if s.unbounded > s.tombstones {
		f.KeepDone *= s.tombstones / s.unbounded
	}
	return f
}

// shape is a cluster whose nodes all lead the same number of shards.
type shape struct {
	nodes, replication int
	perNode            int // shards that each node leads
}

func (s shape) shards() int { return s.nodes * s.perNode }

// copies returns the actual number of replicas of a shard.
func (s shape) copies() int { return min(s.replication, s.nodes) }

// replicas returns the number of replicas that each node holds.
func (s shape) replicas() int { return s.perNode * s.copies() }

// lost returns how many nodes may be lost at once: a zone's or one. With fewer than three replicas it is none.
func (s shape) lost(zones int) int {
	switch {
	case s.copies() < 3:
		return 0
	case zones > 1:
		return min((s.nodes+zones-1)/zones, s.nodes-1)
	}
	return 1
}

// leadersAfter returns how many shards the busiest remaining node leads on average after the loss of this many nodes.
// If one node is lost, the placement gives the nodes that share shards with it. If a zone is lost, it does not.
func (s shape) leadersAfter(lost int) (float64, error) {
	switch {
	case lost == 0:
		return float64(s.perNode), nil
	case lost > 1:
		return math.Ceil(float64(s.perNode*s.nodes) / float64(s.nodes-lost)), nil
	}
	nodes := make([]placement.Node, s.nodes)
	for i := range nodes {
		nodes[i] = placement.Node{ID: fmt.Sprintf("%03d", i), Weight: placement.DefaultWeight}
	}
	placed, err := placement.Target(nodes, make([]placement.Replicas, s.shards()), s.replication)
	if err != nil {
		return 0, err
	}
	inherits := make(map[[2]string]float64) // by lost node and following leader
	most := 0.0
	for _, r := range placed {
		for _, heir := range r.Nodes {
			if heir != r.Preferred {
				pair := [2]string{r.Preferred, heir}
				inherits[pair] += 1 / float64(len(r.Nodes)-1)
				most = max(most, inherits[pair])
			}
		}
	}
	return float64(s.perNode) + most, nil
}

// warnings returns warnings about the plan that its figures do not show.
func (p Plan) warnings(c Costs) []string {
	var warnings []string
	warn := func(when bool, format string, args ...any) {
		if when {
			warnings = append(warnings, fmt.Sprintf(format, args...))
		}
	}
	w, f := p.Workload, p.Facts
	warn(p.Nodes > formable, "%d nodes form the cluster. The other %d join it later, each with --join, and get their "+
		"share of the replicas.", formable, p.Nodes-formable)
	warn(p.Nodes > tried, "Clusters of more than %d nodes were not thought through.", tried)
	warn(p.Shards != placement.Shards(min(p.Nodes, formable), p.Machine.Cores), "Give --shards %d when the cluster "+
		"is formed: `belfry shards balance` makes more shards later, but copies their tasks.", p.Shards)
	warn(w.Replication == 1, "With one replica nothing is left when a node is lost, and nothing fires while it restarts.")
	warn(w.Zones == 2, "One of two zones has a majority of a shard's replicas, and the shard stops if that zone is lost. "+
		"Only three zones or more survive the loss of one.")
	warn(w.Zones > 2, "Divide the nodes evenly among the zones, and give each its serve --zone: then no zone has a "+
		"majority of a shard's replicas.")
	warn(f.KeepDone < w.KeepDone.Seconds()*0.99, "What has ended is kept for about %s rather than %s: more of it does "+
		"not fit into a tenth of a node's memory limit. A call that is repeated later than that schedules again.",
		Duration(f.KeepDone), Duration(w.KeepDone.Seconds()))
	warn(f.LogCapped, "Snapshots are written one at a time, at %.0f MB/s, so that a log gets longer than the state "+
		"before its turn comes; disk space and restarts are worked out with that.", c.value(snapshotRate)/1e6)
	warn(f.Restart > 300, "A node that starts again needs about %s to read its tasks. Restart one at a time.",
		Duration(f.Restart))
	warn(f.Syncs > p.Machine.Syncs, "With a quick disk the log would be synced up to %.0f times a second on each node. "+
		"At %.0f entries get larger instead, and a commit takes longer than %v.", f.Syncs, p.Machine.Syncs,
		time.Duration(c.value(commitSeconds)*float64(time.Second)))
	warn(f.Idle.CPU > 0.25, "Heartbeats and clocks alone take %.2f of a core of each node.", f.Idle.CPU)
	return warnings
}

// commands returns the commands to run on each node that forms the cluster, with those of the first node as an example.
// Further nodes need only --join.
func (p Plan) commands() []string {
	if p.Nodes == 1 {
		return []string{p.serve()}
	}
	forming := p.forming()
	others := make([]string, 0, forming)
	for i := 1; i < forming; i++ {
		others = append(others, fmt.Sprintf("node-%d:8500", i+1))
	}
	return []string{p.serve() + " --http :8400 --http-cert node.pem --http-key node.key --root-key-file root.key" +
		" --peer :8500" +
		" --peer-cert node.pem --peer-key node.key --peer-ca ca.pem --gossip-key-file gossip.key" +
		fmt.Sprintf(" --bootstrap-expect %d --name node-1 --join %s", forming, strings.Join(others, ","))}
}

// forming returns the number of nodes that form the cluster: 1, 3 or 5.
func (p Plan) forming() int { return min(p.Nodes-1+p.Nodes%2, formable) }

func (p Plan) serve() string {
	command := fmt.Sprintf("belfry serve --data /var/lib/belfry --shards %d", p.Shards)
	if n := p.Workload.Replication; p.Nodes > 1 && n != aim {
		command += fmt.Sprintf(" --replication %d", n)
	}
	return command
}

// aim is the replication factor of a new cluster without a setting for it.
const aim = 3

// Move returns the seconds that the copies to a node take that comes in the place of another one, and their bytes. Two
// copies to a node are under way at a time, each at rate bytes a second.
func (p Plan) Move(rate float64) (seconds, bytes float64) {
	bytes = p.Facts.Memory / float64(p.Nodes)
	return bytes / (2 * rate), bytes
}

// Duration formats a number of seconds for people.
func Duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.1f days", d.Hours()/24)
	case d >= 10*time.Minute:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}
