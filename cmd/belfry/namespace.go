package main

import (
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/client"
	amounts "github.com/belfryhq/belfry/cluster/size"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/confirm"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newNamespace() *cobra.Command {
	return group(&cobra.Command{
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
	var caller caller
	var f quotaFlags
	cmd := &cobra.Command{
		Use:   "put NAME",
		Short: "Make a namespace, or replace all its quotas",
		Long: `Make a namespace, or replace all quotas of one that is there: a flag that is not
given is no limit. A quota holds for the whole cluster.`,
		Example: `  belfry namespace put orders
  belfry namespace put orders --max-pending 1000000 --schedules-per-second 500`,
		RunE: func(cmd *cobra.Command, args []string) error {
			quotas, err := f.read()
			if err != nil {
				return cli.WrongUsage(err)
			}
			conn, err := caller.OpenIn("")
			if err != nil {
				return err
			}
			kept, err := conn.PutNamespace(cmd.Context(), args[0], quotas)
			if err != nil {
				return err
			}
			return caller.show(cmd, kept, func(t *output.Table) { fillNamespace(t, kept) })
		},
	}
	caller.addFlags(cmd)
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
func (f *quotaFlags) read() (client.Quotas, error) {
	q := f.quotas
	for _, flag := range []struct {
		name, text string
		into       *int64
	}{{"max-bytes", f.bytes, &q.MaxBytes}, {"max-payload", f.maxPayload, &q.MaxPayload}} {
		if flag.text == "" {
			continue
		}
		bytes, err := amounts.ParseBytes(flag.text)
		if err != nil {
			return q, fmt.Errorf("--%s: %w", flag.name, err)
		}
		*flag.into = bytes
	}
	return q, nil
}

// fillNamespace adds the quotas of a namespace, each with its use.
func fillNamespace(t *output.Table, n *client.Namespace) {
	t.Field("namespace", n.Name)
	t.Field("state", n.State)
	pending, bytes, queues := "", "", ""
	if n.Used != nil {
		pending, bytes = strconv.FormatInt(n.Used.Pending, 10), size(float64(n.Used.Bytes))
		queues = strconv.FormatInt(n.Used.Queues, 10)
		t.Field("dead letters", strconv.FormatInt(n.Used.Dead, 10))
	}
	t.Field("pending tasks", limited(pending, strconv.FormatInt(n.MaxPending, 10), n.MaxPending > 0))
	t.Field("bytes", limited(bytes, size(float64(n.MaxBytes)), n.MaxBytes > 0))
	fillIfAny(t, "queues", limited(queues, strconv.FormatInt(n.MaxQueues, 10), n.MaxQueues > 0))
	fillCallQuotas(t, &n.Quotas, n.Used)
	if n.Weight > 0 {
		t.Field("weight", strconv.FormatInt(n.Weight, 10))
	}
}

// fillCallQuotas adds the quotas of calls, with their use unless it is nil. Rates are counted only under a quota.
func fillCallQuotas(t *output.Table, q *client.Quotas, use *client.Usage) {
	if q.MaxPayload > 0 {
		t.Field("payload", "at most "+size(float64(q.MaxPayload)))
	}
	consumers, schedules, calls := "", "", ""
	if use != nil {
		consumers = strconv.FormatInt(use.Consumers, 10)
		schedules, calls = rate(use.SchedulesPerSecond), rate(use.CallsPerSecond)
	}
	if q.SchedulesPerSecond > 0 {
		t.Field("schedules", limited(schedules, rate(q.SchedulesPerSecond), true)+" a second")
	}
	if q.CallsPerSecond > 0 {
		t.Field("calls", limited(calls, rate(q.CallsPerSecond), true)+" a second")
	}
	fillIfAny(t, "consumers", limited(consumers, strconv.FormatInt(q.MaxConsumers, 10), q.MaxConsumers > 0))
}

// rate formats a rate with three digits at most behind the point.
func rate(v float64) string { return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64) }

// fillIfAny adds a line unless its text is empty.
func fillIfAny(t *output.Table, name, text string) {
	if text != "" {
		t.Field(name, text)
	}
}

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
	var caller caller
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a namespace's quotas and their use",
		Example: `  belfry namespace show orders
  belfry namespace show orders --json | jq .used.pending`,
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := caller.OpenIn("")
			if err != nil {
				return err
			}
			n, err := conn.Namespace(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return caller.show(cmd, n, func(t *output.Table) { fillNamespace(t, n) })
		},
	}
	caller.addFlags(cmd)
	return cmd
}

func newNamespaceList() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the namespaces",
		Example: `  belfry namespace list`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := caller.OpenIn("")
			if err != nil {
				return err
			}
			list, err := conn.Namespaces(cmd.Context())
			if err != nil {
				return err
			}
			return output.ShowEach(cmd.OutOrStdout(), &caller.output, list, func(t *output.Table) { fillNamespaces(t, list) })
		},
	}
	caller.addFlags(cmd)
	return cmd
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
			bytes = size(float64(n.MaxBytes))
		}
		t.Cells(n.Name, n.State, number(float64(n.MaxPending)), bytes, number(n.SchedulesPerSecond),
			number(n.CallsPerSecond), number(float64(n.Weight)), number(float64(n.MaxQueues)),
			number(float64(n.MaxConsumers)), number(float64(n.MaxPayload)))
	}
}

func newNamespaceDelete() *cobra.Command {
	var caller caller
	var waiting waiting
	var asking asking
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a namespace with all its tasks and queues, for ever",
		Long: `Delete a namespace with all its tasks and queues, for ever. It refuses calls at
once, and its tasks are removed in the background. A crash of any node does not
stop that. The name is free again at the end.

On a terminal the command asks first, and shows how many tasks there are. In a
script it needs --yes.`,
		Example: `  belfry namespace delete orders
  belfry namespace delete orders --yes --wait`,
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := caller.OpenIn("")
			if err != nil {
				return err
			}
			err = askAbout(&asking, cmd, args[0], conn.Namespace, deletionQuestion)
			if err != nil {
				return err
			}
			op, err := conn.DeleteNamespace(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return waiting.follow(cmd, conn, &caller, op)
		},
	}
	caller.addFlags(cmd)
	waiting.addFlags(cmd)
	asking.addFlags(cmd)
	return cmd
}

func deletionQuestion(n *client.Namespace) confirm.Question {
	tasks := "all its tasks"
	if n.Used != nil {
		tasks = numberOfThings(n.Used.Pending, "unfinished task") + " and " + numberOfThings(n.Used.Dead, "dead letter")
	}
	return confirm.Question{
		Effect: fmt.Sprintf("deletes namespace %s with %s for ever", n.Name, tasks), Kind: "namespace", Name: n.Name,
	}
}
