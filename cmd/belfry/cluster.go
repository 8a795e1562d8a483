package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newCluster() *cobra.Command {
	return group(&cobra.Command{
		Use:   "cluster",
		Short: "See the nodes and shards of a cluster; change its replication",
		Example: `  belfry cluster status
  belfry cluster replication 5 --preview`,
	}, newClusterStatus(), newClusterReplication())
}

func newClusterReplication() *cobra.Command {
	c := &operationCall{kind: client.Replication}
	cmd := &cobra.Command{
		Use:   "replication N",
		Short: "Change how many replicas each shard has: 1, 3 or 5",
		Long: `Change how many replicas each shard has, while they serve. There must be as many
nodes. A cluster of one grows to three by itself when two more nodes join,
because 3 is the default.`,
		Example: `  belfry cluster replication 5 --preview
  belfry cluster replication 5 --wait`,
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[0])
			if err != nil || n < 1 || n > 5 || n%2 == 0 {
				return cli.WrongUsage(fmt.Errorf("%q replicas: 1, 3 or 5", args[0]))
			}
			return c.run(cmd, client.OperationRequest{Kind: client.Replication, Replication: n})
		},
	}
	c.addFlags(cmd)
	return cmd
}

func newClusterStatus() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the nodes, and each shard with its leader and replicas",
		Example: `  belfry cluster status
  belfry cluster status --json | jq '[.shards[].tasks] | add'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			view, err := conn.Cluster(cmd.Context())
			if err != nil {
				return err
			}
			return caller.show(cmd, view, func(t *output.Table) { fillCluster(t, view) })
		},
	}
	caller.addFlags(cmd)
	return cmd
}

func fillCluster(t *output.Table, view *client.Cluster) {
	t.Row("cluster %s, command version %d, %s", view.ID, view.CommandVersion, replication(view.Replication))
	t.Row("control group: leader %s, term %d, voters %s", nodeName(view, view.Control.Leader), view.Control.Term,
		strings.Join(nodeNames(view, view.Control.Voters), " "))
	if view.Waits != "" {
		t.Row("waits: %s", view.Waits)
	}
	t.Row("")
	t.Columns("NODE", "URL", "ZONE", "WEIGHT", "ALIVE", "ORDER", "CLOCK", "REPLICAS", "LEADS", "READS", "ID").Add()
	leads := map[string]int{}
	for _, shard := range view.Shards {
		leads[shard.Leader]++
	}
	byName := func(a, b client.Node) int { return strings.Compare(a.Name, b.Name) }
	for _, n := range slices.SortedFunc(slices.Values(view.Nodes), byName) {
		t.Row("%s\t%s\t%s\t%d\t%v\t%s\t%+.1f ms\t%d\t%d\t%d\t%s", n.Name, cmp.Or(n.HTTPURL, n.HTTPAddr),
			cmp.Or(n.Zone, "-"), n.Weight, n.Alive, cmp.Or(n.Order, "-"), n.ClockOffsetMs, n.Replicas, leads[n.ID],
			n.CommandVersion, n.ID)
	}
	t.Row("")
	t.Columns("SHARD", "LEADER", "TERM", "TASKS", "REPLICAS").Add()
	for _, shard := range view.Shards {
		t.Row("%d\t%s\t%d\t%d\t%s", shard.ID, nodeName(view, shard.Leader), shard.Term, shard.Tasks, replicas(view, shard))
	}
	fillMoves(t, view)
	if b := view.Backups; b != nil {
		fillBackups(t, view, b)
	}
}

// replication describes the number of replicas of the shards.
func replication(r client.ReplicaCounts) string {
	if r.Fewest == r.Wanted {
		return fmt.Sprintf("%d replicas of each shard", r.Wanted)
	}
	return fmt.Sprintf("%d replicas wanted of each shard, at least %d there", r.Wanted, r.Fewest)
}

// fillMoves adds the shards on their way to other nodes, and the operations under way.
func fillMoves(t *output.Table, view *client.Cluster) {
	moving := slices.DeleteFunc(slices.Clone(view.Shards), func(s client.Shard) bool { return len(s.Target) == 0 })
	if len(moving) > 0 {
		t.Row("")
		t.Columns("SHARD", "MOVES TO", "BYTES", "STEP", "WAITS FOR").Add()
	}
	for _, s := range moving {
		t.Row("%d\t%s\t%s\t%s\t%s", s.ID, strings.Join(nodeNames(view, s.Target), " "), size(float64(s.Bytes)),
			cmp.Or(s.Step, "-"), cmp.Or(s.Waits, "-"))
	}
	fillSlotMoves(t, view)
	running := slices.DeleteFunc(slices.Clone(view.Operations), func(op client.Operation) bool {
		return op.State != client.OperationRunning
	})
	if len(running) > 0 {
		t.Row("")
		fillOperations(t, running)
	}
}

func fillBackups(t *output.Table, view *client.Cluster, b *client.Backups) {
	t.Row("")
	t.Columns("BACKUP", "BEGUN", "ENDED OR SEEN", "NODE", "BYTES", "PLACE OR REASON").Add()
	for _, row := range []struct {
		name string
		try  *client.BackupTry
	}{{"running", b.Running}, {"last kept", b.LastKept}, {"last failed", b.LastFailed}} {
		if try := row.try; try != nil {
			t.Row("%s\t%s\t%s\t%s\t%d\t%s", row.name, t.Instant(try.BegunAt), t.Instant(try.SeenAt),
				nodeName(view, try.Node), try.Bytes, strings.TrimSpace(try.Place+" "+try.Error))
		}
	}
}

func replicas(view *client.Cluster, shard client.Shard) string {
	var list []string
	for _, replica := range shard.Replicas {
		state := replica.State
		switch {
		case replica.Received != nil:
			state += fmt.Sprintf(", %.0f %% copied", 100**replica.Received)
		case !replica.Voter && state != "unknown":
			state += ", no vote yet"
		}
		if replica.Diverged {
			state += ", DIVERGED"
		}
		list = append(list, fmt.Sprintf("%s (%s, %d)", nodeName(view, replica.Node), state, replica.Applied))
	}
	return strings.Join(list, "  ")
}

// nodeNames returns the names of nodes, sorted.
func nodeNames(view *client.Cluster, ids []string) []string {
	var names []string
	for _, id := range ids {
		names = append(names, nodeName(view, id))
	}
	slices.Sort(names)
	return names
}

func nodeName(view *client.Cluster, id string) string {
	if id == "" {
		return "none"
	}
	if n := view.Node(id); n != nil {
		return n.Name
	}
	return id
}
