package main

import (
	"errors"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
)

// patchFlags are a change to a task on the command line.
type patchFlags struct {
	task  taskFlags
	clear []string
}

func newPatch() *cobra.Command {
	var caller caller
	var f patchFlags
	var key string
	cmd := &cobra.Command{
		Use:   "patch ID",
		Short: "Change a task of which no attempt has begun",
		Long: `Change what the flags say of a task of which no attempt has begun; the rest of it stays as it is.

Headers and labels are merged with those of the task; one without a value is removed, as in --label tenant=. --clear
sets a field back to its default: target, target.timeout, retry, retry.max_attempts, labels, payload.`,
		Example: `  belfry patch order-1042-close --in 2h
  belfry patch order-1042-close --payload '{"order":1042,"reason":"late"}' --label tenant=acme --clear retry`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			patch, err := f.patch(cmd.Flags().Changed, cmd.InOrStdin())
			if err != nil {
				return &usageError{err}
			}
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			task, err := conn.Patch(cmd.Context(), args[0], patch, keyOption(key)...)
			if err != nil {
				return err
			}
			return caller.show(cmd, task, func(w io.Writer) { showTask(w, task) })
		},
	}
	caller.addFlags(cmd)
	flags := cmd.Flags()
	f.task.addPatchable(flags)
	flags.StringSliceVar(&f.clear, "clear", nil, "set these fields back to their defaults; repeatable")
	flags.StringVar(&key, "key", "", "idempotency key (default: a random one)")
	alias(cmd, "in", "delay")
	return cmd
}

// patch is the change that the given flags say.
func (f *patchFlags) patch(given func(flag string) bool, stdin io.Reader) (client.Patch, error) {
	t, err := f.task.parse("", stdin)
	if err != nil {
		return client.Patch{}, err
	}
	switch {
	case given("in") && t.Delay == 0:
		return client.Patch{}, errors.New("--in must be more than 0; belfry fire makes a task due now")
	case t.PayloadBytes != nil:
		return client.Patch{}, errors.New("the payload is not JSON; schedule the task anew to deliver other bytes")
	}
	p := client.Patch{
		FireAt: t.FireAt, Delay: t.Delay, Payload: t.Payload, ContentType: t.ContentType, Labels: t.Labels, Clear: f.clear,
	}
	if given("url") || given("header") || given("attempt-timeout") {
		p.Target = t.Target
	}
	if !t.Retry.IsZero() {
		p.Retry = t.Retry
	}
	if !slices.ContainsFunc(patchable, given) && len(f.clear) == 0 {
		return p, errors.New("give what to change, as in --in 2h; see belfry patch --help")
	}
	return p, nil
}
