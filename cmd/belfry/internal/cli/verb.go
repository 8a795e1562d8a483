package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

// Call is one run of a command.
type Call struct {
	Command    *cobra.Command
	Args       []string
	Out        *output.Printer // nil: the command has no result
	Connection *Connection     // nil: the command calls no cluster
	Client     *client.Client  // of the connection
}

// Context returns the context of the command, which ends when the user interrupts it.
func (c *Call) Context() context.Context { return c.Command.Context() }

// In returns the standard input.
func (c *Call) In() io.Reader { return c.Command.InOrStdin() }

// Stdout returns the standard output, for content that Out does not print.
func (c *Call) Stdout() io.Writer { return c.Command.OutOrStdout() }

// Stderr returns the standard error output.
func (c *Call) Stderr() io.Writer { return c.Command.ErrOrStderr() }

// Note prints a line for people on the standard error output.
func (c *Call) Note(format string, args ...any) { c.Command.PrintErrf(format+"\n", args...) }

// Given reports whether the user gave a flag.
func (c *Call) Given(flag string) bool { return c.Command.Flags().Changed(flag) }

// Text returns the value of a flag of the command.
func (c *Call) Text(flag string) string { return c.Command.Flag(flag).Value.String() }

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

// IsGroup reports whether a command only holds others. `belfry relay` calls a cluster and has a command below it.
func IsGroup(cmd *cobra.Command) bool {
	_, err := ConnectionOf(cmd.Flags())
	return cmd.HasSubCommands() && err != nil
}

// Group completes a command with subcommands. The command itself prints its help.
func Group(parent *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	parent.Args = KnownCommand
	parent.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	parent.AddCommand(commands...)
	return parent
}
