package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/confirm"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

// asking lets a user agree to a change that cannot be undone.
type asking struct{ yes bool }

func (a *asking) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&a.yes, "yes", "y", false, "do not ask")
}

// ask shows the question that makes returns, and returns an error unless the user agrees. With --yes it asks nothing.
func (a *asking) ask(cmd *cobra.Command, question func() (confirm.Question, error)) error {
	if a.yes {
		return nil
	}
	if !confirm.IsTerminal(cmd.InOrStdin()) {
		return cli.WrongUsage(confirm.ErrNoTerminal)
	}
	q, err := question()
	if err != nil {
		return err
	}
	return confirm.Ask(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), q)
}

// askAbout asks about one thing of the cluster, which get reads by its name.
func askAbout[T any](
	a *asking, cmd *cobra.Command, name string, get func(context.Context, string) (*T, error),
	question func(*T) confirm.Question,
) error {
	return a.ask(cmd, func() (confirm.Question, error) {
		thing, err := get(cmd.Context(), name)
		if err != nil {
			return confirm.Question{}, err
		}
		return question(thing), nil
	})
}

// numberOfThings returns a number with its noun, as in "1 task" or "12,431 tasks".
func numberOfThings(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%s %ss", output.Grouped(n), noun)
}
