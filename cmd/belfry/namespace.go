package main

import (
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newNamespace() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "namespace",
		Short: "Make, list and delete namespaces, and set their quotas",
		Example: `  belfry namespace put orders --max-pending 1000000
  belfry namespace show orders`,
	}, newNamespacePut(), newNamespaceList(), newNamespaceShow(), newNamespaceDelete())
}

// quotaFlags are the quotas of a namespace or a key, as given.
type quotaFlags struct {
	quotas     client.Quotas
	bytes      string
	maxPayload string
}

// addCallFlags adds the quotas of calls, which keys have too.
func (f *quotaFlags) addCallFlags(flags *pflag.FlagSet) {
	q := &f.quotas
	flags.StringVar(&f.maxPayload, "max-payload", "", "most `bytes` of one payload: 16KiB")
	flags.Float64Var(&q.SchedulesPerSecond, "schedules-per-second", 0, "most tasks `scheduled` in a second")
	flags.Float64Var(&q.CallsPerSecond, "calls-per-second", 0, "most `calls` in a second")
	flags.Int64Var(&q.MaxConsumers, "max-consumers", 0, "most streams and waiting lease `calls`")
}

func newNamespacePut() *cobra.Command {
	var f quotaFlags
	cmd := cli.Verb(&cobra.Command{
		Use:   "put NAME",
		Short: "Make a namespace, or replace all its quotas",
		Long: `Make a namespace, or replace all quotas of one that is there: a flag that is not
given is no limit. A quota holds for the whole cluster.`,
		Example: `  belfry namespace put orders
  belfry namespace put orders --max-pending 1000000 --schedules-per-second 500`,
	}, func(c *cli.Call) (*client.Namespace, error) {
		quotas, err := f.read()
		if err != nil {
			return nil, cli.WrongUsage(err)
		}
		return c.Client.PutNamespace(c.Context(), c.Args[0], quotas)
	}, fillNamespace)
	flags, q := cmd.Flags(), &f.quotas
	flags.Int64Var(&q.MaxPending, "max-pending", 0, "most unfinished `tasks`")
	flags.StringVar(&f.bytes, "max-bytes", "", "most `bytes` of all tasks, dead letters included: 10GiB")
	f.addCallFlags(flags)
	flags.Int64Var(&q.MaxQueues, "max-queues", 0, "most `queues`")
	flags.Int64Var(&q.Weight, "weight", 0,
		"its `part` of the nodes' capacity for due work, beside other namespaces (default 1)")
	return cmd
}

// read returns the quotas with the flags that hold text read.
func (f *quotaFlags) read() (q client.Quotas, err error) {
	q = f.quotas
	if f.bytes != "" {
		err = cli.Read(&q.MaxBytes, "max-bytes", f.bytes, headroom.ParseBytes)
	}
	if err == nil && f.maxPayload != "" {
		err = cli.Read(&q.MaxPayload, "max-payload", f.maxPayload, headroom.ParseBytes)
	}
	return q, err
}

// fillNamespace adds the quotas of a namespace, each with its use.
func fillNamespace(t *output.Table, n *client.Namespace) {
	t.Field("namespace", n.Name)
	t.Field("state", n.State)
	pending, bytes, queues := "", "", ""
	if n.Used != nil {
		pending, bytes = strconv.FormatInt(n.Used.Pending, 10), headroom.FormatBytes(n.Used.Bytes)
		queues = strconv.FormatInt(n.Used.Queues, 10)
		t.Field("dead letters", strconv.FormatInt(n.Used.Dead, 10))
	}
	t.Field("pending tasks", limited(pending, strconv.FormatInt(n.MaxPending, 10), n.MaxPending > 0))
	t.Field("bytes", limited(bytes, headroom.FormatBytes(n.MaxBytes), n.MaxBytes > 0))
	t.Field("queues", limited(queues, strconv.FormatInt(n.MaxQueues, 10), n.MaxQueues > 0))
	fillCallQuotas(t, &n.Quotas, n.Used)
	if n.Weight > 0 {
		t.Field("weight", strconv.FormatInt(n.Weight, 10))
	}
}

// fillCallQuotas adds the quotas of calls, with their use unless it is nil. Rates are counted only under a quota.
func fillCallQuotas(t *output.Table, q *client.Quotas, usage *client.Usage) {
	if q.MaxPayload > 0 {
		t.Field("payload", "at most "+headroom.FormatBytes(q.MaxPayload))
	}
	consumers, schedules, calls := "", "", ""
	if usage != nil {
		consumers = strconv.FormatInt(usage.Consumers, 10)
		schedules, calls = rate(usage.SchedulesPerSecond), rate(usage.CallsPerSecond)
	}
	if q.SchedulesPerSecond > 0 {
		t.Field("schedules", limited(schedules, rate(q.SchedulesPerSecond), true)+" a second")
	}
	if q.CallsPerSecond > 0 {
		t.Field("calls", limited(calls, rate(q.CallsPerSecond), true)+" a second")
	}
	t.Field("consumers", limited(consumers, strconv.FormatInt(q.MaxConsumers, 10), q.MaxConsumers > 0))
}

// rate formats a rate with three digits at most behind the point.
func rate(v float64) string { return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64) }

// limited describes a use and its limit. Either may be unknown.
func limited(used, limit string, bounded bool) string {
	switch {
	case !bounded:
		return used
	case used == "":
		return "at most " + limit
	}
	return used + " of " + limit
}

func newNamespaceShow() *cobra.Command {
	return cli.Verb(&cobra.Command{
		Use:   "show NAME",
		Short: "Show a namespace's quotas and their use",
		Example: `  belfry namespace show orders
  belfry namespace show orders --json | jq .used.pending`,
	}, func(c *cli.Call) (*client.Namespace, error) {
		return c.Client.Namespace(c.Context(), c.Args[0])
	}, fillNamespace)
}

func newNamespaceList() *cobra.Command {
	return cli.ListVerb(&cobra.Command{
		Use:     "list",
		Short:   "List the namespaces",
		Example: `  belfry namespace list`,
	}, func(c *cli.Call) ([]client.Namespace, error) { return c.Client.Namespaces(c.Context()) }, fillNamespaces)
}

func fillNamespaces(t *output.Table, list []client.Namespace) {
	t.Columns("NAMESPACE", "STATE", "MAX PENDING", "MAX BYTES", "SCHEDULES/S", "CALLS/S", "WEIGHT").
		Wide("MAX QUEUES", "MAX CONSUMERS", "MAX PAYLOAD").Add()
	number := func(n float64) string {
		if n == 0 {
			return "-"
		}
		return fmt.Sprintf("%g", n)
	}
	for _, n := range list {
		bytes := "-"
		if n.MaxBytes > 0 {
			bytes = headroom.FormatBytes(n.MaxBytes)
		}
		t.Cells(n.Name, n.State, number(float64(n.MaxPending)), bytes, number(n.SchedulesPerSecond),
			number(n.CallsPerSecond), number(float64(n.Weight)), number(float64(n.MaxQueues)),
			number(float64(n.MaxConsumers)), number(float64(n.MaxPayload)))
	}
}

func newNamespaceDelete() *cobra.Command {
	return cli.Asking(operationVerb(&cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a namespace with all its tasks and queues, for ever",
		Long: `Delete a namespace with all its tasks and queues, for ever. It refuses calls at
once, and its tasks are removed in the background. A crash of any node does not
stop that. The name is free again at the end.

On a terminal the command asks first, and shows how many tasks there are. In a
script it needs --yes.`,
		Example: `  belfry namespace delete orders
  belfry namespace delete orders --yes --wait`,
	}, func(c *cli.Call) (*client.Operation, error) {
		if err := cli.AskAbout(c, c.Client.Namespace, deletionQuestion); err != nil {
			return nil, err
		}
		return c.Client.DeleteNamespace(c.Context(), c.Args[0])
	}))
}

func deletionQuestion(n *client.Namespace) cli.Question {
	tasks := "all its tasks"
	if n.Used != nil {
		tasks = output.Many(n.Used.Pending, "unfinished task") + " and " + output.Many(n.Used.Dead, "dead letter")
	}
	return cli.Question{
		Effect: fmt.Sprintf("deletes namespace %s with %s for ever", n.Name, tasks), Kind: "namespace", Name: n.Name,
	}
}
