package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/instant"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newNodeToken() *cobra.Command {
	return group(&cobra.Command{
		Use:   "token",
		Short: "Make, list and remove the one-time tokens of new nodes",
		Example: `  belfry node token create > join.token
  belfry node token list`,
	}, newNodeTokenCreate(), newNodeTokenList(), newNodeTokenRemove())
}

func newNodeTokenCreate() *cobra.Command {
	var caller caller
	var life time.Duration
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a token by which one new node joins the cluster",
		Long: `Make a token by which one new node joins a running cluster that uses
certificates. The token is printed once, alone on the standard output: the
cluster keeps only a hash of it. The new node reads it from the file that
"belfry serve --join-token-file" names.

A token lets one node in, once, before it expires. The nodes that form a cluster
need none, nor does a node that starts again. On loopback without certificates
no node needs one.`,
		Example: `  belfry node token create > join.token
  belfry node token create --valid-for 10m --addr http://n1:8400`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			token, err := conn.NewJoinToken(cmd.Context(), life)
			if err != nil {
				return err
			}
			return printToken(cmd, &caller, token)
		},
	}
	caller.addFlags(cmd)
	cmd.Flags().Var(cli.NewSpan(&life, time.Hour), "valid-for", "`duration` for which the token is valid: 1m to 30d")
	return cmd
}

// printToken prints a token alone, so that the output can be the file of the token, and all else beside it.
func printToken(cmd *cobra.Command, caller *caller, token *client.NewJoinToken) error {
	err := caller.show(cmd, token, func(t *output.Table) { t.Row("%s", token.Token) })
	if err != nil {
		return err
	}
	note := fmt.Sprintf("token %s lets one new node in until %s", token.ID, instant.Stamp(token.Expires))
	if !token.Required {
		note += "; this cluster runs without certificates, so a new node needs none"
	}
	_, err = fmt.Fprintln(cmd.ErrOrStderr(), output.Text(note))
	return err
}

func newNodeTokenList() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the tokens and the nodes that used them",
		Example: `  belfry node token list`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			tokens, err := conn.JoinTokens(cmd.Context())
			if err != nil {
				return err
			}
			return output.ShowEach(cmd.OutOrStdout(), &caller.output, tokens, func(t *output.Table) { fillTokens(t, tokens) })
		},
	}
	caller.addFlags(cmd)
	return cmd
}

func fillTokens(t *output.Table, tokens []client.JoinToken) {
	t.Columns("ID", "EXPIRES", "USED BY", "USED AT").Add()
	for _, token := range tokens {
		by := ""
		if token.UsedBy != "" {
			by = fmt.Sprintf("%s (%s)", token.UsedName, token.UsedBy)
		}
		t.Cells(token.ID, t.Instant(token.Expires), by, t.Instant(token.Used))
	}
}

func newNodeTokenRemove() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:     "remove ID",
		Short:   "Remove a token, so that it lets no node in",
		Example: `  belfry node token remove kq3v7d2a`,
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			if err := conn.RemoveJoinToken(cmd.Context(), args[0]); err != nil {
				return err
			}
			return caller.show(cmd, map[string]string{"removed": args[0]}, func(t *output.Table) {
				t.Row("token %s is removed", args[0])
			})
		},
	}
	caller.addFlags(cmd)
	return cmd
}
