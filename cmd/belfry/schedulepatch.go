package main

import (
	"errors"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
)

// schedulePatchFlags describe a change to a schedule on the command line.
type schedulePatchFlags struct {
	scheduleFlags
	clear []string
}

func newSchedulePatch() *cobra.Command {
	var caller caller
	var f schedulePatchFlags
	var key string
	cmd := &cobra.Command{
		Use:   "patch ID",
		Short: "Change some settings of a schedule",
		Long: `Change the given settings of a schedule. The others stay as they are.

Headers and labels are merged with those of the task; one without a value is
removed, as in --label tenant=. --clear sets a field back to its default: note,
repeat.end, repeat.calendar, task.target, task.retry.max_attempts and so on. To
change from --every to --cron, give --clear repeat.every, too.`,
		Example: `  belfry schedule patch report --cron "30 9 * * MON-FRI" --note later
  belfry schedule patch report --paused=false --clear note`,
		RunE: func(cmd *cobra.Command, args []string) error {
			patch, err := f.patch(cmd.Flags(), cmd.InOrStdin())
			if err != nil {
				return cli.WrongUsage(err)
			}
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			kept, err := conn.PatchSchedule(cmd.Context(), args[0], patch, keyOption(key)...)
			if err != nil {
				return err
			}
			return caller.showStored(cmd, conn, kept)
		},
	}
	caller.addFlags(cmd)
	f.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.clear, "clear", nil, "`fields` to set back to their defaults; repeatable")
	flags.StringVarP(&key, "key", "k", "", keyUsage)
	return cmd
}

// Names of the flags of a schedule, by the part of it that they change.
var (
	repeatNames = []string{
		"cron", "every", "anchor", "zone", "start", "end", "count", "except", "calendar", "jitter",
	}
	policyNames   = []string{"misfire", "misfire-window", "overlap", "paused", "note", "clear"}
	targetNames   = []string{"url", "header", "attempt-timeout"}
	templateNames = append([]string{
		"payload", "payload-file", "content-type", "label", "max-attempts", "min-backoff", "max-backoff", "retry-delays",
		"queue", "expires-after", "window", "group", "priority",
	}, targetNames...)
)

// patch returns the change that the given flags describe.
func (f *schedulePatchFlags) patch(flags *pflag.FlagSet, stdin io.Reader) (client.SchedulePatch, error) {
	given := func(names []string) bool { return slices.ContainsFunc(names, flags.Changed) }
	p := client.SchedulePatch{
		Misfire: client.Misfire(f.misfire), Overlap: client.Overlap(f.overlap), Note: f.note, Clear: f.clear,
	}
	if !given(repeatNames) && !given(policyNames) && !given(templateNames) {
		return p, errors.New("give what to change, as in --note; see belfry schedule patch --help")
	}
	if flags.Changed("paused") {
		p.Paused = &f.paused
	}
	task, err := f.task.parse("", stdin)
	err = errors.Join(f.repeat.parse(), cli.ParseInto(&p.MisfireWindow, "misfire-window", f.window), err)
	if given(repeatNames) {
		p.Repeat = &f.repeat.rule
	}
	if given(templateNames) {
		if !given(targetNames) {
			task.Target = nil
		}
		if task.Retry.IsZero() {
			task.Retry = nil
		}
		p.Task = &task
	}
	return p, err
}
