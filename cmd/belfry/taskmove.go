package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
)

func newTaskMove() *cobra.Command {
	var caller caller
	var f taskFlags
	var key string
	cmd := &cobra.Command{
		Use:   "move ID",
		Short: "Change when a task is due, if no attempt of it has begun",
		Long: `Change when a task is due, if no attempt of it has begun. The other fields stay
as they are.`,
		Example: `  belfry task move order-1042-close --in 2h
  belfry task move order-1042-close --at "monday 9:00" --tz Europe/Berlin`,
		RunE: func(cmd *cobra.Command, args []string) error {
			patch, err := f.move()
			if err != nil {
				return cli.WrongUsage(err)
			}
			return caller.taskCall(cmd, func(conn *client.Client) (*client.Task, error) {
				return conn.Patch(cmd.Context(), args[0], patch, keyOption(key)...)
			})
		},
	}
	caller.addFlags(cmd)
	f.addTime(cmd)
	cmd.Flags().StringVarP(&key, "key", "k", "", keyUsage)
	return cmd
}

// move reads the new time of a task.
func (f *taskFlags) move() (p client.Patch, err error) {
	if !exactlyOne(f.delay, f.at) {
		return p, errors.New("give one of --in and --at")
	}
	err = errors.Join(cli.ParseInto(&p.Delay, "in", f.delay), f.times.Due(&p.FireAt, "at", f.at))
	if err == nil && f.at == "" && p.Delay == 0 {
		err = errors.New("--in must be more than 0; belfry task fire makes a task due now")
	}
	return p, err
}
