package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
)

// bulkFlags are the flags of a bulk operation, as given.
type bulkFlags struct {
	r                   client.BulkRequest
	states, labels      []string
	dueAfter, dueBefore string
	by, to, patch, key  string
	dryRun, yes         bool
}

// bulkCommand is a command that begins a bulk operation.
type bulkCommand struct {
	op            client.BulkOp
	short, detail string
	example       string
	asks          bool // on a terminal, with the number of tasks
}

var bulkCommands = []bulkCommand{
	{client.BulkCancel, "Cancel all tasks that pass a filter", "Tasks that are being attempted get no further attempt.",
		`  belfry operation cancel --queue reports --label tenant=acme --dry-run
  belfry operation cancel --queue reports --label tenant=acme --yes --wait`, true},
	{client.BulkMove, "Change when all tasks that pass a filter fire",
		"Tasks that have been attempted do not move.",
		`  belfry operation move --queue reports --due-before 1h --by 2h
  belfry operation move --prefix order- --to 2030-01-21T10:00:00Z --wait`, false},
	{client.BulkPatch, "Patch all tasks that pass a filter",
		"The patch is JSON, with the members target (without headers), retry and\n" +
			"labels. Tasks that have been attempted stay as they are.",
		`  belfry operation patch --queue reports --patch '{"labels":{"tenant":"acme"}}'
  belfry operation patch --all --patch '{"retry":{"max_attempts":3}}' --wait`, false},
	{client.BulkFire, "Make all tasks that pass a filter due now", "Retrying tasks are attempted at once.",
		`  belfry operation fire --queue reports --due-before 1h --per-second 100`, true},
	{client.BulkReplay, "Make all dead letters that pass a filter due again", "Their attempts count from 0.",
		`  belfry operation replay --queue reports --label tenant=acme --wait`, false},
	{client.BulkPurge, "Delete all dead letters that pass a filter, for ever", "They cannot be brought back.",
		`  belfry operation purge --queue reports --due-before 2030-01-01T00:00:00Z --yes`, true},
}

// newBulks returns the commands that begin bulk operations.
func newBulks() (commands []*cobra.Command) {
	for _, b := range bulkCommands {
		commands = append(commands, newBulk(b))
	}
	return commands
}

func newBulk(b bulkCommand) *cobra.Command {
	var caller caller
	var waiting waiting
	f := &bulkFlags{r: client.BulkRequest{Op: b.op}}
	cmd := &cobra.Command{
		Use:   string(b.op),
		Short: b.short,
		Long: b.short + `, in one namespace.
` + b.detail + `

The cluster walks the tasks by itself, and goes on after every failure. Each
matching task gets one call, and each outcome is counted once. Tasks that are
created behind the walk are not seen.`,
		Example: b.example,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.parse(time.Now()); err != nil {
				return cli.WrongUsage(err)
			}
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			if f.dryRun {
				return f.count(cmd, conn, &caller)
			}
			if b.asks && !f.yes {
				if err := f.ask(cmd, conn); err != nil {
					return err
				}
			}
			op, err := conn.BeginBulk(cmd.Context(), f.r, keyOption(f.key)...)
			if err != nil {
				return err
			}
			return waiting.follow(cmd, conn, &caller, op)
		},
	}
	caller.addFlags(cmd)
	waiting.addFlags(cmd)
	f.addFlags(cmd, b)
	return cmd
}

func (f *bulkFlags) addFlags(cmd *cobra.Command, b bulkCommand) {
	flags := cmd.Flags()
	flags.StringVarP(&f.r.Filter.Queue, "queue", "q", "", "only tasks of this `queue`")
	flags.StringVar(&f.r.Filter.Prefix, "prefix", "", "only those whose id begins with this `text`")
	flags.StringArrayVarP(&f.labels, "label", "l", nil,
		"only those with this `label`, as in tenant=acme or tenant:acme; repeatable")
	flags.StringSliceVarP(&f.states, "state", "s", nil, "only tasks in these `states` (default: all that it can change)")
	flags.StringVar(&f.dueAfter, "due-after", "",
		"only those due at this `time` or later: an instant, or a duration from now")
	flags.StringVar(&f.dueBefore, "due-before", "",
		"only those due before this `time`: an instant, or a duration from now")
	flags.BoolVar(&f.r.All, "all", false, "every one of the namespace, if no filter is given")
	flags.IntVar(&f.r.PerSecond, "per-second", 0, "most `tasks` a second (default: 5000, over all bulk operations)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only count the tasks that pass the filter now")
	flags.StringVarP(&f.key, "key", "k", "", keyUsage)
	switch b.op {
	case client.BulkMove:
		flags.StringVar(&f.by, "by", "", "a `duration` to add to the time of each task; it may be negative")
		flags.StringVar(&f.to, "to", "", "the new `instant` of all tasks")
	case client.BulkPatch:
		flags.StringVar(&f.patch, "patch", "", "the merge patch, as `JSON`")
	}
	if b.asks {
		flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	}
	cli.CompleteWords(cmd, "state", string(client.Scheduled), string(client.Ready), string(client.Firing),
		string(client.Retrying), string(client.Delivered), string(client.Cancelled), string(client.Dead))
}

// parse reads the flags into the request.
func (f *bulkFlags) parse(now time.Time) error {
	filter := &f.r.Filter
	for _, s := range f.states {
		filter.States = append(filter.States, client.State(s))
	}
	given := filter.Queue != "" || filter.Prefix != "" || len(f.labels)+len(f.states) > 0 || f.dueAfter+f.dueBefore != ""
	switch {
	case !given && !f.r.All:
		return errors.New("give a filter, or --all for every task of the namespace")
	case given && f.r.All:
		return errors.New("--all is given beside a filter")
	case f.r.Op == client.BulkMove && (f.by == "") == (f.to == ""):
		return errors.New("give either --by or --to")
	case f.r.Op == client.BulkPatch && !json.Valid([]byte(f.patch)):
		return errors.New("--patch is no JSON")
	}
	if f.patch != "" {
		f.r.Patch = json.RawMessage(f.patch)
	}
	return errors.Join(
		cli.Labels(&filter.Labels, f.labels), cli.ParseInto(&f.r.By, "by", f.by), cli.ParseAt(&f.r.To, "to", f.to),
		atOrFromNow(&filter.DueAfter, "due-after", f.dueAfter, now),
		atOrFromNow(&filter.DueBefore, "due-before", f.dueBefore, now),
	)
}

// atOrFromNow reads a flag that takes an instant, or a duration from now.
func atOrFromNow(at *time.Time, flag, text string, now time.Time) error {
	if text == "" {
		return nil
	}
	var span time.Duration
	err := cli.ParseAtOrSpan(at, &span, flag, text)
	if err == nil && at.IsZero() {
		*at = now.Add(span)
	}
	return err
}

// count shows how many tasks pass the filter.
func (f *bulkFlags) count(cmd *cobra.Command, conn *client.Client, c *caller) error {
	matched, complete, err := conn.CountBulk(cmd.Context(), f.r)
	if err != nil {
		return err
	}
	return c.show(cmd, map[string]any{"matched": matched, "complete": complete}, func(t *cli.Table) {
		t.Row("%s pass the filter; nothing was done", tasksOf(matched, complete))
	})
}

// ask shows how many tasks pass the filter, and returns an error unless the user agrees.
func (f *bulkFlags) ask(cmd *cobra.Command, conn *client.Client) error {
	if !isTerminal(cmd.InOrStdin()) {
		return cli.WrongUsage(errors.New("it cannot be taken back: give --yes, since there is no terminal to ask at"))
	}
	matched, complete, err := conn.CountBulk(cmd.Context(), f.r)
	if err != nil {
		return err
	}
	return confirm(cmd.InOrStdin(), cmd.ErrOrStderr(), bulkQuestion(f.r.Op, matched, complete))
}

func bulkQuestion(op client.BulkOp, matched int, complete bool) string {
	text := string(op)
	return fmt.Sprintf("%s%s %s? It cannot be taken back. [y/N] ", strings.ToUpper(text[:1]), text[1:],
		tasksOf(matched, complete))
}

// tasksOf describes a number of tasks, which may be too low.
func tasksOf(matched int, complete bool) string {
	if !complete {
		return fmt.Sprintf("at least %d tasks", matched)
	}
	return fmt.Sprintf("%d tasks", matched)
}

// whatBulk returns a bulk operation in few words: "cancel tasks of shop: queue=reports".
func whatBulk(op *client.Operation) string {
	text := fmt.Sprintf("%s tasks of %s", op.Op, op.Namespace)
	if op.Op == client.BulkMove {
		text += cmp.Or(prefixed(" by ", op.By), " to "+instantOr(op.FireAt))
	}
	if conditions := conditionsOf(op.Filter); len(conditions) > 0 {
		text += ": " + strings.Join(conditions, " ")
	}
	return text
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func instantOr(at *time.Time) string {
	if at == nil {
		return ""
	}
	return instant(*at)
}

// conditionsOf returns the conditions of a filter, as in queue=reports.
func conditionsOf(f *client.BulkFilter) (conditions []string) {
	if f == nil {
		return nil
	}
	add := func(name, value string) {
		if value != "" {
			conditions = append(conditions, name+"="+value)
		}
	}
	add("queue", f.Queue)
	add("prefix", f.Prefix)
	for _, name := range slices.Sorted(maps.Keys(f.Labels)) {
		conditions = append(conditions, "label="+name+":"+f.Labels[name])
	}
	states := make([]string, len(f.States))
	for i, s := range f.States {
		states[i] = string(s)
	}
	add("state", strings.Join(states, ","))
	for name, at := range map[string]time.Time{"due_after": f.DueAfter, "due_before": f.DueBefore} {
		if !at.IsZero() {
			add(name, instant(at))
		}
	}
	slices.Sort(conditions)
	return conditions
}

// fillBulk adds the fields that only bulk operations have.
func fillBulk(t *cli.Table, op *client.Operation) {
	t.Field("outcomes", outcomesOf(op))
	t.Field("patches", strings.Join(op.Patched, ", "))
	if op.PerSecond > 0 {
		t.Field("per second", fmt.Sprint(op.PerSecond))
	}
}

// outcomesOf returns the outcomes of a bulk operation, as in "cancelled 12, gone 1".
func outcomesOf(op *client.Operation) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(op.Outcomes)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, op.Outcomes[name]))
	}
	return strings.Join(parts, ", ")
}
