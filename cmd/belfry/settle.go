package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

type settleFlags struct {
	ack, nack, extend, release []string
	delay, reason, lease       string
}

func newLeaseSettle() *cobra.Command {
	var caller caller
	var f settleFlags
	cmd := &cobra.Command{
		Use:   "settle QUEUE",
		Short: "End or extend leases by their receipts",
		Example: `  belfry lease settle reports --ack AbC --nack DeF --in 5m
  belfry lease settle reports --extend AbC --lease 10m`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.settlement(cmd.Flags().Changed("in"))
			if err != nil {
				return cli.WrongUsage(err)
			}
			return caller.settle(cmd, args[0], s)
		},
	}
	caller.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.ack, "ack", nil, "`receipts` of tasks that are done")
	flags.StringSliceVar(&f.nack, "nack", nil, "`receipts` of tasks that failed")
	flags.StringSliceVar(&f.extend, "extend", nil, "`receipts` of leases to extend, by --lease")
	flags.StringSliceVar(&f.release, "release", nil, "`receipts` of tasks to give back; the attempt is not counted")
	flags.StringVarP(&f.delay, "in", "d", "",
		"`duration` until those of --nack are tried again (default: the backoff decides)")
	flags.StringVar(&f.reason, "reason", "", "`text` that says why those of --nack failed")
	flags.StringVar(&f.lease, "lease", "30s", "`duration` from now after which leases of --extend end")
	cli.HiddenName(cmd, "delay", "in")
	return cmd
}

func newLeaseAck() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:     "ack QUEUE RECEIPT...",
		Short:   "Acknowledge leased tasks: lease settle --ack",
		Example: `  belfry lease ack reports AbC DeF`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return caller.settle(cmd, args[0], client.Settlement{Ack: args[1:]})
		},
	}
	caller.addFlags(cmd)
	return cmd
}

func (f *settleFlags) settlement(delayed bool) (client.Settlement, error) {
	s := client.Settlement{Ack: f.ack, Release: f.release}
	if len(f.ack)+len(f.nack)+len(f.extend)+len(f.release) == 0 {
		return s, errors.New("give receipts by --ack, --nack, --extend or --release")
	}
	var delay *time.Duration
	if delayed {
		delay = new(time.Duration)
		if err := cli.ParseInto(delay, "in", f.delay); err != nil {
			return s, err
		}
	}
	for _, receipt := range f.nack {
		s.Nack = append(s.Nack, client.Nack{Receipt: receipt, Delay: delay, Reason: f.reason})
	}
	var lease time.Duration
	if err := cli.ParseInto(&lease, "lease", f.lease); err != nil {
		return s, err
	}
	for _, receipt := range f.extend {
		s.Extend = append(s.Extend, client.Extend{Receipt: receipt, Lease: lease})
	}
	return s, nil
}

// settled is one result in the JSON output.
type settled struct {
	Receipt string `json:"receipt"`
	ID      string `json:"id"`
	Status  int    `json:"status"`
	Outcome string `json:"outcome,omitempty"` // replaced: the task was scheduled anew after the lease was given

	Problem *problem `json:"problem,omitempty"` // absent: the receipt is settled
}

// problem is a refusal in the JSON output, with the fields that say why.
type problem struct {
	Type   string `json:"type,omitempty"`
	Title  string `json:"title"`
	Detail string `json:"detail,omitempty"`
}

// problemOf returns the problem of an error. An error that is no answer of the service has only a title.
func problemOf(err error) *problem {
	var refusal *client.Error
	if errors.As(err, &refusal) {
		return &problem{Type: refusal.Type, Title: refusal.Title, Detail: refusal.Detail}
	}
	return &problem{Title: err.Error()}
}

// settle prints the result of each receipt, and fails if one was not settled.
func (c *caller) settle(cmd *cobra.Command, queue string, s client.Settlement) error {
	conn, err := c.connect()
	if err != nil {
		return err
	}
	var results []settled
	var reasons []string
	for _, r := range conn.Settle(cmd.Context(), queue, s) {
		result := settled{Receipt: r.Receipt, ID: r.ID, Status: r.Status}
		if r.Replaced {
			result.Outcome = "replaced"
		}
		reason := ""
		if r.Err != nil {
			result.Problem, reason, err = problemOf(r.Err), cli.Explain(cmd, r.Err), errSaid
		}
		results, reasons = append(results, result), append(reasons, reason)
	}
	printed := output.ShowEach(cmd.OutOrStdout(), &c.output, results, func(t *output.Table) {
		for i, r := range results {
			t.Row("%s\t%d\t%s\t%s", r.ID, r.Status, r.Receipt, reasons[i])
		}
	})
	if printed != nil {
		return printed
	}
	return err
}
