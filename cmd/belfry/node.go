package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/instant"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newNode() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "node",
		Short: "See the nodes of a cluster; let new ones in; drain, remove or replace one",
		Example: `  belfry node list
  belfry node token create > join.token
  belfry node drain n3 --preview
  belfry node replace n3 --wait`,
	}, newNodeList(), newNodeShow(), newNodeDrain(), newNodeResume(), newNodeRemove(), newNodeReplace(), newNodeToken())
}

func newNodeList() *cobra.Command {
	return cli.ListVerb(&cobra.Command{
		Use:   "list",
		Short: "List the nodes, with their replicas, disks and orders",
		Example: `  belfry node list
  belfry node list --json | jq -r 'select(.order != "work") | .name'`,
	}, func(c *cli.Call) ([]client.Node, error) {
		nodes, err := c.Client.Nodes(c.Context())
		slices.SortFunc(nodes, func(a, b client.Node) int { return strings.Compare(a.Name, b.Name) })
		return nodes, err
	}, fillNodes)
}

func fillNodes(t *output.Table, nodes []client.Node) {
	t.Columns("NODE", "STATE", "ORDER", "REPLICAS", "LEADS", "DISK FREE", "BUILD").Fit("BUILD", "NODE").
		Wide("ZONE", "CLOCK", "URL", "PEER", "ID", "WEIGHT", "READS").Add()
	for _, n := range nodes {
		t.Cells(n.Name, nodeState(t, n), n.Order, n.Replicas, n.Leads, diskFree(n), cmp.Or(n.Build, "-"),
			cmp.Or(n.Zone, "-"), fmt.Sprintf("%+.1f ms", n.ClockOffsetMs), cmp.Or(n.HTTPURL, n.HTTPAddr), n.PeerAddr, n.ID,
			n.Weight, n.CommandVersion)
	}
}

// nodeState tells whether a node is up, and for how long it has been away.
func nodeState(t *output.Table, n client.Node) string {
	switch {
	case n.AwaySince != nil:
		return "away " + t.Since(&n.AwaySince.Time)
	case n.Alive:
		return "up"
	}
	return "away"
}

func diskFree(n client.Node) string {
	if n.DiskTotal == 0 {
		return "-"
	}
	return fmt.Sprintf("%s (%.0f %%)", headroom.FormatBytes(n.DiskFree), 100*float64(n.DiskFree)/float64(n.DiskTotal))
}

func newNodeShow() *cobra.Command {
	return cli.Verb(&cobra.Command{
		Use:   "show NODE",
		Short: "Show a node, by its name or id",
		Example: `  belfry node show n3
  belfry node show n3 --json | jq .disk_free`,
	}, func(c *cli.Call) (n client.Node, err error) {
		nodes, err := c.Client.Nodes(c.Context())
		if err != nil {
			return n, err
		}
		i := slices.IndexFunc(nodes, func(n client.Node) bool { return n.ID == c.Args[0] })
		if i < 0 {
			i = slices.IndexFunc(nodes, func(n client.Node) bool { return n.Name == c.Args[0] })
		}
		if i < 0 {
			return n, fmt.Errorf("no node of the cluster has this id or name: %w", client.ErrNotFound)
		}
		return nodes[i], nil
	}, fillNode)
}

func fillNode(t *output.Table, n client.Node) {
	t.Field("node", n.Name)
	t.Field("id", n.ID)
	t.Field("state", nodeState(t, n))
	t.Field("order", n.Order)
	t.Field("zone", n.Zone)
	t.Field("weight", fmt.Sprint(n.Weight))
	t.Field("url", cmp.Or(n.HTTPURL, n.HTTPAddr))
	t.Field("peer", n.PeerAddr)
	t.Field("replicas", fmt.Sprint(n.Replicas))
	t.Field("leads", fmt.Sprint(n.Leads))
	t.Field("disk free", diskFree(n))
	t.Field("clock", fmt.Sprintf("%+.1f ms", n.ClockOffsetMs))
	t.Field("build", n.Build)
	t.Field("reads", fmt.Sprint(n.CommandVersion))
}

func newNodeDrain() *cobra.Command {
	var leaders bool
	cmd := previewed(&cobra.Command{
		Use:   "drain NODE",
		Short: "Move all replicas off a node; it stays in the cluster",
		Long: `Move all replicas off a node. It stays in the cluster, and takes no replicas
until it is resumed.

With --leaders the node keeps its replicas and leads nothing that another node
can lead, until it is resumed: for maintenance, and where no other node can take
its replicas.`,
		Example: `  belfry node drain n3 --preview
  belfry node drain n3 --wait
  belfry node drain n3 --leaders --wait`,
	}, false, func(c *cli.Call) (client.OperationRequest, error) {
		if leaders {
			return nodeRequest(client.Rest)(c)
		}
		return nodeRequest(client.Drain)(c)
	})
	cmd.Flags().BoolVar(&leaders, "leaders", false, "give away the leaderships only, and keep the replicas")
	return cmd
}

// nodeRequest returns the request for an operation on the node that the argument names.
func nodeRequest(kind client.OperationKind) func(*cli.Call) (client.OperationRequest, error) {
	return func(c *cli.Call) (client.OperationRequest, error) {
		return client.OperationRequest{Kind: kind, Node: c.Args[0]}, nil
	}
}

func newNodeResume() *cobra.Command {
	return previewed(&cobra.Command{
		Use:   "resume NODE",
		Short: "Let a node take replicas and leaderships again",
		Long: `End a drain, a removal or a replacement that is under way, or a drain that is
done.`,
		Example: `  belfry node resume n3`,
	}, false, nodeRequest(client.Resume))
}

func newNodeRemove() *cobra.Command {
	return previewed(&cobra.Command{
		Use:   "remove NODE",
		Short: "Move all replicas off a node, and take it out of the cluster",
		Long: `Move all replicas off a node, and take it out of the cluster. Its data folder
is of no use then. With an empty one, its machine joins as a new node.`,
		Example: `  belfry node remove n3 --preview
  belfry node remove n3 --yes --wait`,
	}, true, nodeRequest(client.Remove))
}

func newNodeReplace() *cobra.Command {
	return previewed(&cobra.Command{
		Use:   "replace NODE",
		Short: "Take a lost node out of the cluster; others make its replicas anew",
		Long: `Take a node out of the cluster that will not come back. The other nodes make
its replicas anew at once, instead of after --replace-after.`,
		Example: `  belfry node replace n3 --preview
  belfry node replace n3 --yes --wait`,
	}, true, nodeRequest(client.Replace))
}

func fillSteps(t *output.Table, plan *client.Plan) {
	if onSlots(plan.Kind) {
		fillSlotSteps(t, plan)
		return
	}
	if len(plan.Steps) > 0 {
		t.Columns("SHARD", "STEP", "NODE", "BYTES").Add()
	}
	for _, s := range plan.Steps {
		bytes := "-"
		if s.Action == "add" {
			bytes = headroom.FormatBytes(s.Bytes)
		}
		t.Cells(s.Shard, s.Action, cmp.Or(s.NodeName, s.Node), bytes)
	}
	t.Row("%s. Nothing has begun.", planned(plan))
}

// planned sums up a plan.
func planned(plan *client.Plan) string {
	copies := 0
	for _, s := range plan.Steps {
		if s.Action == "add" {
			copies++
		}
	}
	switch {
	case plan.Kind == client.Rest:
		return fmt.Sprintf("%d leaderships to give away", plan.Total)
	case onSlots(plan.Kind):
		return fmt.Sprintf("%d slots to move, about %s", plan.Total, headroom.FormatBytes(plan.Bytes))
	case len(plan.Steps) == 0:
		return "no replica moves"
	}
	return fmt.Sprintf("%d replicas to copy, about %s", copies, headroom.FormatBytes(plan.Bytes))
}

func newNodeToken() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "token",
		Short: "Make, list and remove the one-time tokens of new nodes",
		Example: `  belfry node token create > join.token
  belfry node token list`,
	}, newNodeTokenCreate(), newNodeTokenList(), newNodeTokenRemove())
}

func newNodeTokenCreate() *cobra.Command {
	var life time.Duration
	cmd := cli.PlainVerb(&cobra.Command{
		Use:   "create",
		Short: "Make a token by which one new node joins the cluster",
		Long: `Make a token by which one new node joins a running cluster that uses
certificates. The token is printed once, alone on the standard output: the
cluster keeps only a hash of it. The new node reads it from the file that
"belfry serve --join-token-file" names.

A token lets one node in, once, before it expires. The nodes that form a cluster
need none, nor does a node that starts again. On loopback without certificates
no node needs one.`,
		Example: `  belfry node token create > join.token
  belfry node token create --valid-for 10m --addr http://n1:8400`,
	}, func(c *cli.Call) error {
		token, err := c.Client.NewJoinToken(c.Context(), life)
		if err != nil {
			return err
		}
		return printToken(c, token)
	})
	cmd.Flags().Var(cli.NewSpan(&life, time.Hour), "valid-for", "`duration` for which the token is valid: 1m to 30d")
	return cmd
}

// printToken prints a token alone, so that the output can be the file of the token, and all else beside it.
func printToken(c *cli.Call, token *client.NewJoinToken) error {
	err := output.Show(c.Out, token, func(t *output.Table, token *client.NewJoinToken) { t.Row("%s", token.Token) })
	if err != nil {
		return err
	}
	note := fmt.Sprintf("token %s lets one new node in until %s", token.ID, instant.Stamp(token.Expires))
	if !token.Required {
		note += "; this cluster runs without certificates, so a new node needs none"
	}
	_, err = fmt.Fprintln(c.Stderr(), output.Text(note))
	return err
}

func newNodeTokenList() *cobra.Command {
	return cli.ListVerb(&cobra.Command{
		Use:     "list",
		Short:   "List the tokens and the nodes that used them",
		Example: `  belfry node token list`,
	}, func(c *cli.Call) ([]client.JoinToken, error) { return c.Client.JoinTokens(c.Context()) }, fillTokens)
}

func fillTokens(t *output.Table, tokens []client.JoinToken) {
	t.Columns("ID", "EXPIRES", "USED BY", "USED AT").Add()
	for _, token := range tokens {
		by := ""
		if token.UsedBy != "" {
			by = fmt.Sprintf("%s (%s)", token.UsedName, token.UsedBy)
		}
		t.Cells(token.ID, t.Instant(token.Expires), by, t.Instant(token.Used))
	}
}

func newNodeTokenRemove() *cobra.Command {
	return cli.Verb(&cobra.Command{
		Use:     "remove ID",
		Short:   "Remove a token, so that it lets no node in",
		Example: `  belfry node token remove kq3v7d2a`,
	}, func(c *cli.Call) (map[string]string, error) {
		return map[string]string{"removed": c.Args[0]}, c.Client.RemoveJoinToken(c.Context(), c.Args[0])
	}, func(t *output.Table, answer map[string]string) { t.Row("token %s is removed", answer["removed"]) })
}
