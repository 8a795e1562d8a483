package capacity

import (
	"errors"
	"fmt"
	"slices"

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
