package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/node"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit, the Go version and the platform",
		Example: `  belfry version`,
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "belfry", node.ReadBuild())
			return err
		},
	}
}
