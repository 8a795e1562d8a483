package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/confirm"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newKeyRevoke() *cobra.Command {
	var caller caller
	var asking asking
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "End an API key for ever, on every node within a second",
		Example: `  belfry key revoke x4kq2mzt7a
  belfry key list --json | jq -r 'select(.name == "shop") | .id' |
    xargs -n 1 belfry key revoke --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := caller.OpenIn("")
			if err != nil {
				return err
			}
			err = askAbout(&asking, cmd, args[0], conn.Key, keyQuestion)
			if err != nil {
				return err
			}
			if err := conn.RevokeKey(cmd.Context(), args[0]); err != nil {
				return err
			}
			return caller.show(cmd, map[string]string{"revoked": args[0]}, func(t *output.Table) {
				t.Row("key %s is revoked", args[0])
			})
		},
	}
	caller.addFlags(cmd)
	asking.addFlags(cmd)
	return cmd
}

// keyQuestion asks about the end of a key, with the last use of it.
func keyQuestion(k *client.APIKey) confirm.Question {
	return confirm.Question{
		Effect: fmt.Sprintf("ends key %s (%s) for ever, last used: %s", k.Name, k.ID, cmp.Or(hour(k.LastUsedAt), "never")),
		Kind:   "key", Name: k.Name,
	}
}
