package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
)

type settleFlags struct {
	ack, nack, extend, release []string
	delay, reason, lease       string
}

func newSettle() *cobra.Command {
	var caller caller
	var f settleFlags
	cmd := &cobra.Command{
		Use:     "settle QUEUE",
		Short:   "End or extend leases by their receipts",
		Example: "  belfry settle reports --ack AbC… --nack DeF… --reason 'no paper' --delay 5m",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.settlement(cmd.Flags().Changed("delay"))
			if err != nil {
				return &usageError{err}
			}
			return caller.settle(cmd, args[0], s)
		},
	}
	caller.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.ack, "ack", nil, "receipts of tasks that are done")
	flags.StringSliceVar(&f.nack, "nack", nil, "receipts of tasks that failed")
	flags.StringSliceVar(&f.extend, "extend", nil, "receipts of leases to extend, by --lease")
	flags.StringSliceVar(&f.release, "release", nil, "receipts of tasks to give back, uncounted")
	flags.StringVar(&f.delay, "delay", "", "of --nack: when to retry (default: the backoff decides)")
	flags.StringVar(&f.reason, "reason", "", "of --nack: why")
	flags.StringVar(&f.lease, "lease", "30s", "of --extend: the lease ends so long from now")
	return cmd
}

func newAck() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:   "ack QUEUE RECEIPT...",
		Short: "Acknowledge leased tasks: settle --ack",
		Args:  cobra.MinimumNArgs(2),
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
		return s, fmt.Errorf("give receipts by --ack, --nack, --extend or --release")
	}
	var delay *time.Duration
	if delayed {
		delay = new(time.Duration)
		if err := parseInto(delay, "delay", f.delay); err != nil {
			return s, err
		}
	}
	for _, receipt := range f.nack {
		s.Nack = append(s.Nack, client.Nack{Receipt: receipt, Delay: delay, Reason: f.reason})
	}
	var lease time.Duration
	if err := parseInto(&lease, "lease", f.lease); err != nil {
		return s, err
	}
	for _, receipt := range f.extend {
		s.Extend = append(s.Extend, client.Extend{Receipt: receipt, Lease: lease})
	}
	return s, nil
}

// settled is a result as --json prints it.
type settled struct {
	Receipt string `json:"receipt"`
	ID      string `json:"id"`
	Status  int    `json:"status"`
	Error   string `json:"error,omitempty"`
}

// settle shows what became of each receipt, and fails if one was not settled.
func (c *caller) settle(cmd *cobra.Command, queue string, s client.Settlement) error {
	conn, err := c.connect()
	if err != nil {
		return err
	}
	var out []settled
	for _, r := range conn.Settle(cmd.Context(), queue, s) {
		row := settled{Receipt: r.Receipt, ID: r.ID, Status: r.Status}
		if r.Err != nil {
			row.Error, err = r.Err.Error(), errSaid
		}
		out = append(out, row)
	}
	shown := c.show(cmd, out, func(w io.Writer) {
		for _, r := range out {
			_, _ = fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", r.ID, r.Status, r.Receipt, r.Error) // into the table's memory
		}
	})
	if shown != nil {
		return shown
	}
	return err
}
