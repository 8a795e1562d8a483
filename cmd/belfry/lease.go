package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newLease() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "lease",
		Short: "Take due tasks of a queue that is pulled, and settle them",
		Example: `  belfry lease take reports --max 10 --wait 20s
  belfry lease ack reports AbC`,
	}, newLeaseTake(), newLeaseSettle(), newLeaseAck())
}

func newLeaseTake() *cobra.Command {
	var demand client.Demand
	var wait, lease string
	var ack bool
	cmd := cli.PlainVerb(&cobra.Command{
		Use:   "take QUEUE",
		Short: "Lease due tasks, and show them with their receipts",
		Example: `  belfry lease take reports --max 10 --wait 20s
  belfry lease take reports --max 1000 --ack --json | jq .payload`,
	}, func(c *cli.Call) error {
		err := errors.Join(cli.ParseInto(&demand.Wait, "wait", wait), cli.ParseInto(&demand.Lease, "lease", lease))
		if err != nil {
			return cli.WrongUsage(err)
		}
		tasks, err := c.Client.Lease(c.Context(), c.Args[0], demand)
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			c.Note("no task is ready in queue %s%s", c.Args[0], absence(c, c.Args[0]))
			return nil
		}
		if err := output.ShowEach(c.Out, tasks, fillLeased); err != nil || !ack {
			return err
		}
		return ackAll(c, tasks)
	})
	flags := cmd.Flags()
	flags.IntVarP(&demand.Max, "max", "m", 1, "most tasks to take")
	flags.StringVarP(&wait, "wait", "w", "", "longest `duration` to wait for the first one")
	flags.StringVar(&lease, "lease", "", "`duration` of the leases (default 30s)")
	flags.BoolVar(&ack, "ack", false, "acknowledge the tasks once they are printed")
	return cmd
}

func fillLeased(t *output.Table, tasks []client.Leased) {
	t.Columns("ID", "ATTEMPT", "LEASE ENDS", "PAYLOAD", "RECEIPT").
		Fit("PAYLOAD", "LEASE ENDS").
		Wide("FENCE", "WEBHOOK ID", "GROUP", "LABELS").Add()
	for _, task := range tasks {
		t.Cells(
			task.ID, task.Attempt, t.Instant(task.LeaseEndsAt), payload(&task.Task), task.Receipt, task.Fence,
			task.WebhookID, task.Group, labels(task.Labels))
	}
}

// ackAll acknowledges tasks and returns the refusals.
func ackAll(c *cli.Call, tasks []client.Leased) error {
	var s client.Settlement
	for _, t := range tasks {
		s.Ack = append(s.Ack, t.Receipt)
	}
	var errs []error
	for _, r := range c.Client.Settle(c.Context(), c.Args[0], s) {
		if r.Err != nil {
			errs = append(errs, fmt.Errorf("ack of %s: %w", r.ID, r.Err))
		}
	}
	return errors.Join(errs...)
}

type settleFlags struct {
	ack, nack, extend, release []string
	delay, reason, lease       string
}

func newLeaseSettle() *cobra.Command {
	var f settleFlags
	cmd := cli.PlainVerb(&cobra.Command{
		Use:   "settle QUEUE",
		Short: "End or extend leases by their receipts",
		Example: `  belfry lease settle reports --ack AbC --nack DeF --in 5m
  belfry lease settle reports --extend AbC --lease 10m`,
	}, func(c *cli.Call) error {
		s, err := f.settlement(c.Given("in"))
		if err != nil {
			return cli.WrongUsage(err)
		}
		return settle(c, s)
	})
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
	return cli.PlainVerb(&cobra.Command{
		Use:     "ack QUEUE RECEIPT...",
		Short:   "Acknowledge leased tasks: lease settle --ack",
		Example: `  belfry lease ack reports AbC DeF`,
	}, func(c *cli.Call) error { return settle(c, client.Settlement{Ack: c.Args[1:]}) })
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
func settle(c *cli.Call, s client.Settlement) (err error) {
	var results []settled
	var reasons []string
	for _, r := range c.Client.Settle(c.Context(), c.Args[0], s) {
		result := settled{Receipt: r.Receipt, ID: r.ID, Status: r.Status}
		if r.Replaced {
			result.Outcome = "replaced"
		}
		reason := ""
		if r.Err != nil {
			result.Problem, reason, err = problemOf(r.Err), cli.Explain(c.Command, r.Err), errSaid
		}
		results, reasons = append(results, result), append(reasons, reason)
	}
	printed := output.ShowEach(c.Out, results, func(t *output.Table, results []settled) {
		for i, r := range results {
			t.Row("%s\t%d\t%s\t%s", r.ID, r.Status, r.Receipt, reasons[i])
		}
	})
	if printed != nil {
		return printed
	}
	return err
}
