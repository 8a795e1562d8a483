package capacity

import (
	"fmt"
	"strings"
	"time"

	"github.com/belfryhq/belfry/cluster/placement"
)

// warnings returns warnings about the plan that its figures do not show.
func (p Plan) warnings(c Costs) []string {
	var told []string
	warn := func(when bool, format string, args ...any) {
		if when {
			told = append(told, fmt.Sprintf(format, args...))
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
		"before its turn comes; disk space and restarts are worked out with that.", c.of(snapshotRate)/1e6)
	warn(f.Restart > 300, "A node that starts again needs about %s to read its tasks. Restart one at a time.",
		Duration(f.Restart))
	warn(f.Syncs > p.Machine.Syncs, "With a quick disk the log would be synced up to %.0f times a second on each node. "+
		"At %.0f entries get larger instead, and a commit takes longer than %v.", f.Syncs, p.Machine.Syncs,
		time.Duration(c.of(commitSeconds)*float64(time.Second)))
	warn(f.Idle.CPU > 0.25, "Heartbeats and clocks alone take %.2f of a core of each node.", f.Idle.CPU)
	return told
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
