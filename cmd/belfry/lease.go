package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
)

type leaseFlags struct {
	max         int
	wait, lease string
	ack         bool
}

func newLease() *cobra.Command {
	var caller caller
	var f leaseFlags
	cmd := &cobra.Command{
		Use:   "lease QUEUE",
		Short: "Lease due tasks of a queue that is pulled, and show them with their receipts",
		Example: `  belfry lease reports --max 10 --wait 20s
  belfry lease reports --max 1000 --ack --json | jq .payload`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			demand, err := f.demand()
			if err != nil {
				return &usageError{err}
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
				cmd.PrintErrf("no task is ready in queue %s\n", args[0])
				return nil
			}
			if err := showLeased(cmd.OutOrStdout(), tasks, caller.json); err != nil || !f.ack {
				return err
			}
			return ackAll(cmd, conn, args[0], tasks)
		},
	}
	caller.addFlags(cmd)
	flags := cmd.Flags()
	flags.IntVar(&f.max, "max", 1, "at most so many tasks")
	flags.StringVar(&f.wait, "wait", "", "how long to wait for the first one")
	flags.StringVar(&f.lease, "lease", "", "how long they are leased (default 30s)")
	flags.BoolVar(&f.ack, "ack", false, "acknowledge them once they are printed")
	return cmd
}

func (f *leaseFlags) demand() (client.Demand, error) {
	d := client.Demand{Max: f.max}
	return d, errors.Join(parseInto(&d.Wait, "wait", f.wait), parseInto(&d.Lease, "lease", f.lease))
}

func showLeased(out io.Writer, tasks []client.Leased, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(out)
		for _, t := range tasks {
			if err := enc.Encode(t); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprint(table, "ID\tATTEMPT\tLEASE ENDS\tPAYLOAD\tRECEIPT\n") // into the table's memory
	for _, t := range tasks {
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\n",
			t.ID, t.Attempt, t.LeaseEndsAt.UTC().Format(time.RFC3339), payload(&t.Task), t.Receipt)
	}
	return table.Flush()
}

// ackAll settles what was printed; only what went wrong is told.
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
