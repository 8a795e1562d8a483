package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/confirm"
	"github.com/belfryhq/belfry/cmd/belfry/internal/instant"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newNode() *cobra.Command {
	return group(&cobra.Command{
		Use:   "node",
		Short: "See the nodes of a cluster; let new ones in; drain, remove or replace one",
		Example: `  belfry node list
  belfry node token create > join.token
  belfry node drain n3 --preview
  belfry node replace n3 --wait`,
	}, newNodeList(), newNodeShow(), newNodeDrain(), newNodeResume(), newNodeRemove(), newNodeReplace(), newNodeToken())
}

func newNodeList() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the nodes, with their replicas, disks and orders",
		Example: `  belfry node list
  belfry node list --json | jq -r 'select(.order != "work") | .name'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			nodes, err := conn.Nodes(cmd.Context())
			if err != nil {
				return err
			}
			slices.SortFunc(nodes, func(a, b client.Node) int { return strings.Compare(a.Name, b.Name) })
			fill := func(t *output.Table) { fillNodes(t, nodes, time.Now()) }
			return output.ShowEach(cmd.OutOrStdout(), &caller.output, nodes, fill)
		},
	}
	caller.addFlags(cmd)
	return cmd
}

func fillNodes(t *output.Table, nodes []client.Node, now time.Time) {
	t.Columns("NODE", "STATE", "ORDER", "REPLICAS", "LEADS", "DISK FREE", "BUILD").Fit("BUILD", "NODE").
		Wide("ZONE", "CLOCK", "URL", "PEER", "ID", "WEIGHT", "READS").Add()
	for _, n := range nodes {
		t.Cells(n.Name, nodeState(n, now), n.Order, n.Replicas, n.Leads, diskFree(n), cmp.Or(n.Build, "-"),
			cmp.Or(n.Zone, "-"), fmt.Sprintf("%+.1f ms", n.ClockOffsetMs), cmp.Or(n.HTTPURL, n.HTTPAddr), n.PeerAddr, n.ID,
			n.Weight, n.CommandVersion)
	}
}

// nodeState tells whether a node is up, and for how long it has been away.
func nodeState(n client.Node, now time.Time) string {
	switch {
	case n.AwaySince != nil:
		return "away " + instant.Span(max(now.Sub(*n.AwaySince).Round(time.Second), 0))
	case n.Alive:
		return "up"
	}
	return "away"
}

func diskFree(n client.Node) string {
	if n.DiskTotal == 0 {
		return "-"
	}
	return fmt.Sprintf("%s (%.0f %%)", size(float64(n.DiskFree)), 100*float64(n.DiskFree)/float64(n.DiskTotal))
}

func newNodeDrain() *cobra.Command {
	c := &operationCall{kind: client.Drain}
	cmd := c.onNode(&cobra.Command{
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
	})
	cmd.Flags().BoolVar(&c.leaders, "leaders", false, "give away the leaderships only, and keep the replicas")
	return cmd
}

func newNodeResume() *cobra.Command {
	c := &operationCall{kind: client.Resume}
	return c.onNode(&cobra.Command{
		Use:   "resume NODE",
		Short: "Let a node take replicas and leaderships again",
		Long: `End a drain, a removal or a replacement that is under way, or a drain that is
done.`,
		Example: `  belfry node resume n3`,
	})
}

func newNodeRemove() *cobra.Command {
	c := &operationCall{kind: client.Remove, final: true}
	return c.onNode(&cobra.Command{
		Use:   "remove NODE",
		Short: "Move all replicas off a node, and take it out of the cluster",
		Long: `Move all replicas off a node, and take it out of the cluster. Its data folder
is of no use then. With an empty one, its machine joins as a new node.`,
		Example: `  belfry node remove n3 --preview
  belfry node remove n3 --yes --wait`,
	})
}

func newNodeReplace() *cobra.Command {
	c := &operationCall{kind: client.Replace, final: true}
	return c.onNode(&cobra.Command{
		Use:   "replace NODE",
		Short: "Take a lost node out of the cluster; others make its replicas anew",
		Long: `Take a node out of the cluster that will not come back. The other nodes make
its replicas anew at once, instead of after --replace-after.`,
		Example: `  belfry node replace n3 --preview
  belfry node replace n3 --yes --wait`,
	})
}

// operationCall is a command that begins an operation.
type operationCall struct {
	caller
	waiting
	kind    client.OperationKind
	leaders bool
	final   bool // the operation cannot be undone
	preview bool
	asking  asking
}

// onNode completes the command of an operation on a node.
func (c *operationCall) onNode(cmd *cobra.Command) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r := client.OperationRequest{Kind: c.kind, Node: args[0]}
		if c.leaders {
			r.Kind = client.Rest
		}
		return c.run(cmd, r)
	}
	c.addFlags(cmd)
	return cmd
}

func (c *operationCall) addFlags(cmd *cobra.Command) {
	c.caller.addFlags(cmd)
	c.waiting.addFlags(cmd)
	cmd.Flags().BoolVar(&c.preview, "preview", false, "show the steps and the bytes to copy, and begin nothing")
	if c.final {
		c.asking.addFlags(cmd)
	}
}

func (c *operationCall) run(cmd *cobra.Command, r client.OperationRequest) error {
	conn, err := c.connect()
	if err != nil {
		return err
	}
	if c.preview {
		plan, err := conn.Preview(cmd.Context(), r)
		if err != nil {
			return err
		}
		return c.show(cmd, plan, func(t *output.Table) { fillSteps(t, plan) })
	}
	if c.final {
		err := c.asking.ask(cmd, func() (confirm.Question, error) { return planQuestion(cmd.Context(), conn, r) })
		if err != nil {
			return err
		}
	}
	op, err := conn.Begin(cmd.Context(), r)
	if err != nil {
		return err
	}
	return c.follow(cmd, conn, &c.caller, op)
}

// planQuestion asks about an operation that cannot be undone, with its plan.
func planQuestion(ctx context.Context, conn *client.Client, r client.OperationRequest) (confirm.Question, error) {
	plan, err := conn.Preview(ctx, r)
	if err != nil {
		return confirm.Question{}, err
	}
	if r.Node == "" {
		op := client.Operation{Kind: r.Kind, Shard: r.Shard, To: r.To, Slots: r.Slots}
		return confirm.Question{Effect: fmt.Sprintf("begins %s (%s); shards are not merged again", what(&op), planned(plan))},
			nil
	}
	name := cmp.Or(plan.NodeName, r.Node)
	return confirm.Question{
		Effect: fmt.Sprintf("takes node %s (%s) out of the cluster for ever (%s)", name, plan.Node, planned(plan)),
		Kind:   "node", Name: name,
	}, nil
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
			bytes = size(float64(s.Bytes))
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
		return fmt.Sprintf("%d slots to move, about %s", plan.Total, size(float64(plan.Bytes)))
	case len(plan.Steps) == 0:
		return "no replica moves"
	}
	return fmt.Sprintf("%d replicas to copy, about %s", copies, size(float64(plan.Bytes)))
}
