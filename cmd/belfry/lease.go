package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newLease() *cobra.Command {
	return group(&cobra.Command{
		Use:   "lease",
		Short: "Take due tasks of a queue that is pulled, and settle them",
		Example: `  belfry lease take reports --max 10 --wait 20s
  belfry lease ack reports AbC`,
	}, newLeaseTake(), newLeaseSettle(), newLeaseAck())
}

type leaseFlags struct {
	max         int
	wait, lease string
	ack         bool
}

func newLeaseTake() *cobra.Command {
	var caller caller
	var f leaseFlags
	cmd := &cobra.Command{
		Use:   "take QUEUE",
		Short: "Lease due tasks, and show them with their receipts",
		Example: `  belfry lease take reports --max 10 --wait 20s
  belfry lease take reports --max 1000 --ack --json | jq .payload`,
		RunE: func(cmd *cobra.Command, args []string) error {
			demand, err := f.demand()
			if err != nil {
				return cli.WrongUsage(err)
			}
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			tasks, err := conn.Lease(cmd.Context(), args[0], demand)
			if err != nil {
				return err
			}
			if len(tasks) == 0 {
				cmd.PrintErrf("no task is ready in queue %s%s\n", args[0], absence(cmd.Context(), conn, args[0]))
				return nil
			}
			err = output.ShowEach(cmd.OutOrStdout(), &caller.output, tasks, func(t *output.Table) { fillLeased(t, tasks) })
			if err != nil || !f.ack {
				return err
			}
			return ackAll(cmd, conn, args[0], tasks)
		},
	}
	caller.addFlags(cmd)
	flags := cmd.Flags()
	flags.IntVarP(&f.max, "max", "m", 1, "most tasks to take")
	flags.StringVarP(&f.wait, "wait", "w", "", "longest `duration` to wait for the first one")
	flags.StringVar(&f.lease, "lease", "", "`duration` of the leases (default 30s)")
	flags.BoolVar(&f.ack, "ack", false, "acknowledge the tasks once they are printed")
	return cmd
}

func (f *leaseFlags) demand() (client.Demand, error) {
	d := client.Demand{Max: f.max}
	return d, errors.Join(cli.ParseInto(&d.Wait, "wait", f.wait), cli.ParseInto(&d.Lease, "lease", f.lease))
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
func ackAll(cmd *cobra.Command, conn *client.Client, queue string, tasks []client.Leased) error {
	var s client.Settlement
	for _, t := range tasks {
		s.Ack = append(s.Ack, t.Receipt)
	}
	var errs []error
	for _, r := range conn.Settle(cmd.Context(), queue, s) {
		if r.Err != nil {
			errs = append(errs, fmt.Errorf("ack of %s: %w", r.ID, r.Err))
		}
	}
	return errors.Join(errs...)
}
