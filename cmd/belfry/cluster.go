package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newCluster() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "cluster",
		Short: "See nodes and shards; change the replication and keys of tokens",
		Example: `  belfry cluster status
  belfry cluster replication 5 --preview`,
	}, newClusterStatus(), newClusterReplication(), newClusterRotateJWTKeys())
}

func newClusterReplication() *cobra.Command {
	return previewed(&cobra.Command{
		Use:   "replication N",
		Short: "Change how many replicas each shard has: 1, 3 or 5",
		Long: `Change how many replicas each shard has, while they serve. There must be as many
nodes. A cluster of one grows to three by itself when two more nodes join,
because 3 is the default.`,
		Example: `  belfry cluster replication 5 --preview
  belfry cluster replication 5 --wait`,
	}, false, func(c *cli.Call) (r client.OperationRequest, err error) {
		n, err := strconv.Atoi(c.Args[0])
		if err != nil || n < 1 || n > 5 || n%2 == 0 {
			return r, fmt.Errorf("%q replicas: 1, 3 or 5", c.Args[0])
		}
		return client.OperationRequest{Kind: client.Replication, Replication: n}, nil
	})
}

func newClusterRotateJWTKeys() *cobra.Command {
	var overlap time.Duration
	cmd := cli.Verb(&cobra.Command{
		Use:   "rotate-jwt-keys",
		Short: "Make newer keys that sign the tokens of webhooks",
		Long: `Make newer keys that sign the tokens of webhooks, one for each algorithm. The
cluster does so by itself once the present ones are 90 days old.

The newer keys are at once in /.well-known/jwks.json, and sign from the middle
of --overlap on. The older ones stay there until it ends. --overlap 0s ends them
at once, for a key that has leaked: receivers refuse their tokens as soon as
they read the keys again.`,
		Example: `  belfry cluster rotate-jwt-keys
  belfry cluster rotate-jwt-keys --overlap 0s`,
	}, func(c *cli.Call) ([]client.JWTKey, error) { return c.Client.RotateJWTKeys(c.Context(), overlap) }, fillJWTKeys)
	cmd.Flags().Var(cli.NewSpan(&overlap, time.Hour), "overlap",
		"`duration` for which the older keys stay published: 0s, or 15m to 30d")
	return cmd
}

func fillJWTKeys(t *output.Table, keys []client.JWTKey) {
	t.Columns("KID", "ALGORITHM", "SIGNS FROM", "ENDS").Add()
	for i := range keys {
		k := &keys[i]
		t.Cells(k.ID, k.Algorithm, hour(&k.SignsAt), cmp.Or(hour(k.EndsAt), "-"))
	}
}

func newClusterStatus() *cobra.Command {
	return cli.Verb(&cobra.Command{
		Use:   "status",
		Short: "Show the nodes, and each shard with its leader and replicas",
		Example: `  belfry cluster status
  belfry cluster status --json | jq '[.shards[].tasks] | add'`,
	}, func(c *cli.Call) (*client.Cluster, error) { return c.Client.Cluster(c.Context()) }, fillCluster)
}

func fillCluster(t *output.Table, view *client.Cluster) {
	t.Row("cluster %s, command version %d", view.ID, view.CommandVersion)
	t.Row("control group: leader %s, term %d, voters %s", nodeName(view, view.Control.Leader), view.Control.Term,
		strings.Join(nodeNames(view, view.Control.Voters), " "))
	t.Row("%s", replication(view.Replication))
	if view.Waits != "" {
		t.Row("waits: %s", view.Waits)
	}
	t.Row("")
	t.Columns("NODE", "ALIVE", "ORDER", "ZONE", "REPLICAS", "LEADS", "CLOCK", "URL").Fit("URL", "ZONE").
		Wide("WEIGHT", "READS", "ID").Add()
	leads := map[string]int{}
	for _, shard := range view.Shards {
		leads[shard.Leader]++
	}
	byName := func(a, b client.Node) int { return strings.Compare(a.Name, b.Name) }
	for _, n := range slices.SortedFunc(slices.Values(view.Nodes), byName) {
		t.Cells(n.Name, n.Alive, cmp.Or(n.Order, "-"), cmp.Or(n.Zone, "-"), n.Replicas, leads[n.ID],
			fmt.Sprintf("%+.1f ms", n.ClockOffsetMs), cmp.Or(n.HTTPURL, n.HTTPAddr), n.Weight, n.CommandVersion, n.ID)
	}
	t.Row("")
	t.Columns("SHARD", "LEADER", "TASKS", "BEHIND", "REPLICAS").Fit("REPLICAS").Wide("TERM", "APPLIED").Add()
	for _, s := range view.Shards {
		t.Cells(s.ID, nodeName(view, s.Leader), s.Tasks, behind(s), replicas(view, s), s.Term, applied(view, s))
	}
	fillTroubles(t, view)
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
		t.Columns("SHARD", "MOVES TO", "BYTES", "STEP", "WAITS FOR").Fit("MOVES TO", "WAITS FOR").Add()
	}
	for _, s := range moving {
		t.Cells(s.ID, strings.Join(nodeNames(view, s.Target), " "), headroom.FormatBytes(s.Bytes), cmp.Or(s.Step, "-"),
			cmp.Or(s.Waits, "-"))
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
	t.Columns("BACKUP", "ENDED OR SEEN", "NODE", "BYTES", "PLACE OR REASON").Fit("ENDED OR SEEN", "PLACE OR REASON").
		Wide("BEGUN").Add()
	for _, row := range []struct {
		name string
		try  *client.BackupTry
	}{{"running", b.Running}, {"last kept", b.LastKept}, {"last failed", b.LastFailed}} {
		if try := row.try; try != nil {
			t.Cells(row.name, t.Instant(try.SeenAt.Time), nodeName(view, try.Node), headroom.FormatBytes(try.Bytes),
				strings.TrimSpace(try.Place+" "+try.Error), t.Instant(try.BegunAt.Time))
		}
	}
}

// replicas names the nodes of a shard's replicas.
func replicas(view *client.Cluster, shard client.Shard) string {
	return strings.Join(texts(shard.Replicas, func(r client.Replica) string { return nodeName(view, r.Node) }), " ")
}

// fillTroubles adds a line for each trouble of replicas. Shards whose replicas on one node have the same share a line.
func fillTroubles(t *output.Table, view *client.Cluster) {
	var troubles []string
	shards := map[string][]uint32{} // by their trouble
	for _, s := range view.Shards {
		for _, r := range s.Replicas {
			if text := trouble(r); text != "" {
				text = fmt.Sprintf("%s: %s", nodeName(view, r.Node), text)
				if shards[text] == nil {
					troubles = append(troubles, text)
				}
				shards[text] = append(shards[text], s.ID)
			}
		}
	}
	for _, text := range troubles {
		t.Row("%s (shard %s)", text, strings.Trim(fmt.Sprint(shards[text]), "[]"))
	}
}

// trouble describes a replica that is no sound voter, or returns "".
func trouble(r client.Replica) string {
	var list []string
	switch {
	case r.Received != nil:
		list = append(list, fmt.Sprintf("%.0f %% copied", 100**r.Received))
	case r.State == unknown:
		list = append(list, "no report")
	case !r.Voter:
		list = append(list, "no vote yet")
	}
	if r.Diverged {
		list = append(list, "DIVERGED")
	}
	return strings.Join(list, ", ")
}

// unknown is the state of a replica without a report.
const unknown = "unknown"

// behind returns by how many log entries the slowest replica of a shard is behind the first one.
func behind(shard client.Shard) uint64 {
	var first, most uint64
	for _, r := range shard.Replicas {
		first = max(first, r.Applied)
	}
	for _, r := range shard.Replicas {
		if r.State != unknown {
			most = max(most, first-r.Applied)
		}
	}
	return most
}

// applied lists the log index that each replica of a shard has applied.
func applied(view *client.Cluster, shard client.Shard) string {
	return strings.Join(texts(shard.Replicas, func(r client.Replica) string {
		return fmt.Sprintf("%s %d", nodeName(view, r.Node), r.Applied)
	}), " ")
}

// nodeNames returns the names of nodes, sorted.
func nodeNames(view *client.Cluster, ids []string) []string {
	return slices.Sorted(slices.Values(texts(ids, func(id string) string { return nodeName(view, id) })))
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
