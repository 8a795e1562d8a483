package cli

import (
	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

// Call is one run of a command.
type Call struct {
	*cobra.Command
	Args       []string
	Out        *output.Printer // nil: the command has no result
	Connection *Connection     // nil: the command calls no cluster
	Client     *client.Client  // of the connection
}

// Verb completes a command that calls a cluster and prints the answer, which fill adds to a table.
func Verb[T any](cmd *cobra.Command, call func(*Call) (T, error), fill func(*output.Table, T)) *cobra.Command {
	return PlainVerb(cmd, func(c *Call) error {
		answer, err := call(c)
		if err != nil {
			return err
		}
		return output.Show(c.Out, answer, fill)
	})
}

// ListVerb is Verb for an answer that is a list. Programs get each element as a value.
func ListVerb[T any](cmd *cobra.Command, call func(*Call) ([]T, error), fill func(*output.Table, []T)) *cobra.Command {
	return PlainVerb(cmd, func(c *Call) error {
		list, err := call(c)
		if err != nil {
			return err
		}
		return output.ShowEach(c.Out, list, fill)
	})
}

// PlainVerb completes a command that calls a cluster and prints the answer by itself.
func PlainVerb(cmd *cobra.Command, run func(*Call) error) *cobra.Command {
	conn := new(Connection)
	conn.AddFlags(cmd.Flags())
	return withOutput(cmd, conn, func(c *Call) (err error) {
		if c.Client, err = conn.Open(); err != nil {
			return err
		}
		c.Connection = conn
		return run(c)
	})
}

// LocalVerb completes a command that calls no cluster, and prints its result by itself.
func LocalVerb(cmd *cobra.Command, run func(*Call) error) *cobra.Command {
	return withOutput(cmd, nil, run)
}

// withOutput adds the flags for the form of the result.
func withOutput(cmd *cobra.Command, clock output.Clock, run func(*Call) error) *cobra.Command {
	out := &output.Printer{Clock: clock}
	out.AddFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		out.Out = cmd.OutOrStdout()
		return run(&Call{Command: cmd, Args: args, Out: out})
	}
	return cmd
}

// Arg returns the only argument, or "" without one.
func (c *Call) Arg() string {
	if len(c.Args) == 0 {
		return ""
	}
	return c.Args[0]
}

// Group completes a command with subcommands. The command itself prints its help.
func Group(parent *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	parent.Args = KnownCommand
	parent.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	parent.AddCommand(commands...)
	return parent
}
