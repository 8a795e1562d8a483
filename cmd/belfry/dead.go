package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
)

func newDead() *cobra.Command {
	return group(&cobra.Command{Use: "dead", Short: "List, replay or drop a queue's dead letters"},
		newDeadList(), newDeadReplay(), newDeadDrop())
}

func (f *listFlags) addDeadFlags(cmd *cobra.Command, limit int, limitUsage string) {
	flags := cmd.Flags()
	flags.StringVar(&f.prefix, "prefix", "", "only those whose id begins so")
	flags.StringArrayVar(&f.labels, "label", nil,
		"only those with this label, as in tenant=acme or tenant:acme; repeatable")
	flags.StringVar(&f.dueBefore, "due-before", "", "only those due before this instant, or within this time from now")
	flags.IntVar(&f.limit, "limit", limit, limitUsage)
}

func newDeadList() *cobra.Command {
	var caller caller
	f := listFlags{states: []string{string(client.Dead)}}
	cmd := &cobra.Command{
		Use:   "list QUEUE",
		Short: "List a queue's dead letters",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.queue = args[0]
			filter, err := f.filter(time.Now())
			if err != nil {
				return &usageError{err}
			}
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			return runList(cmd, conn, filter, f.limit, caller.json, "no dead letter was found in queue "+f.queue)
		},
	}
	caller.addFlags(cmd)
	f.addDeadFlags(cmd, 100, "stop after so many; 0: list all")
	return cmd
}

func newDeadReplay() *cobra.Command {
	cmd, _ := newDeadCall("replay QUEUE [ID...]", "Make dead letters due again, with all attempts before them", "replayed",
		(*client.Client).Replay)
	return cmd
}

func newDeadDrop() *cobra.Command {
	cmd, f := newDeadCall("drop QUEUE [ID...]", "Forget dead letters for good", "dropped", (*client.Client).DropDead)
	var all bool
	cmd.Flags().BoolVar(&all, "all", false, "every one of the queue, if neither ids nor a filter are given")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && f.prefix == "" && f.dueBefore == "" && len(f.labels) == 0 && f.limit == 0 && !all {
			return &usageError{errors.New("give ids or a filter, or --all to drop every dead letter of the queue")}
		}
		return run(cmd, args)
	}
	return cmd
}

// newDeadCall is a command that changes those that are named or filtered.
func newDeadCall(use, short, done string,
	call func(*client.Client, context.Context, string, client.DeadFilter) (int, error)) (*cobra.Command, *listFlags) {
	var caller caller
	f := new(listFlags)
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := f.filter(time.Now())
			if err != nil {
				return &usageError{err}
			}
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			n, err := call(conn, cmd.Context(), args[0], client.DeadFilter{
				IDs: args[1:], Prefix: filter.Prefix, Labels: filter.Labels, DueBefore: filter.DueBefore, Limit: f.limit,
			})
			if err != nil {
				return err
			}
			return caller.show(cmd, map[string]int{"count": n}, func(w io.Writer) {
				_, _ = fmt.Fprintf(w, "%d %s\n", n, done) // into the table's memory
			})
		},
	}
	caller.addFlags(cmd)
	f.addDeadFlags(cmd, 0, "at most so many; 0: all")
	return cmd, f
}
