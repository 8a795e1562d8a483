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
	"github.com/belfryhq/belfry/cmd/belfry/internal/confirm"
	"github.com/belfryhq/belfry/cmd/belfry/internal/instant"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

// bulkFlags are the flags of a bulk operation, as given.
type bulkFlags struct {
	r                   client.BulkRequest
	states, labels      []string
	dueAfter, dueBefore string
	by, in, at          string
	patch, key          string
	times               cli.Times
	dryRun              bool
	asking              asking
}

// bulkCommand is a command that begins a bulk operation.
type bulkCommand struct {
	op            client.BulkOp
	short, detail string
	example       string
}

var bulkCommands = []bulkCommand{
	{client.BulkCancel, "Cancel all tasks that pass a filter", "Tasks that are being attempted get no further attempt.",
		`  belfry operation cancel --queue reports --label tenant=acme --dry-run
  belfry operation cancel --queue reports --label tenant=acme --yes --wait`},
	{client.BulkMove, "Change when all tasks that pass a filter fire",
		"Tasks that have been attempted do not move.",
		`  belfry operation move --queue reports --due-before 1h --by 2h
  belfry operation move --prefix order- --at "tomorrow 9:00" --yes --wait`},
	{client.BulkPatch, "Patch all tasks that pass a filter",
		"The patch is JSON, with the members target (without headers), retry and\n" +
			"labels. Tasks that have been attempted stay as they are.",
		`  belfry operation patch --queue reports --patch '{"labels":{"tenant":"acme"}}'
  belfry operation patch --all --patch '{"retry":{"max_attempts":3}}' --yes`},
	{client.BulkFire, "Make all tasks that pass a filter due now", "Retrying tasks are attempted at once.",
		`  belfry operation fire --queue reports --due-before 1h --per-second 100 --yes`},
	{client.BulkReplay, "Make all dead letters that pass a filter due again", "Their attempts count from 0.",
		`  belfry operation replay --queue reports --label tenant=acme --yes --wait`},
	{client.BulkPurge, "Delete all dead letters that pass a filter, for ever", "They cannot be brought back.",
		`  belfry operation purge --queue reports --due-before 2030-01-01T00:00:00Z --yes`},
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.parse(); err != nil {
				return cli.WrongUsage(err)
			}
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			if f.dryRun {
				return f.count(cmd, conn, &caller)
			}
			if err := f.asking.ask(cmd, func() (confirm.Question, error) { return f.question(cmd, conn) }); err != nil {
				return err
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
	f.times.AddFlags(cmd)
	flags.BoolVar(&f.r.All, "all", false, "every one of the namespace, if no filter is given")
	flags.IntVar(&f.r.PerSecond, "per-second", 0, "most `tasks` a second (default: 5000, over all bulk operations)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only count the tasks that pass the filter now")
	flags.StringVarP(&f.key, "key", "k", "", keyUsage)
	switch b.op {
	case client.BulkMove:
		flags.StringVar(&f.by, "by", "", "a `duration` to add to the time of each task; it may be negative")
		flags.StringVar(&f.at, "at", "", "the new `instant` of all tasks")
		flags.StringVar(&f.in, "in", "", "a `duration` from now, to the new instant of all tasks")
		cli.HiddenName(cmd, "to", "at")
	case client.BulkPatch:
		flags.StringVar(&f.patch, "patch", "", "the merge patch, as `JSON`")
	}
	f.asking.addFlags(cmd)
	cli.CompleteWords(cmd, "state", string(client.StateScheduled), string(client.StateReady), string(client.StateFiring),
		string(client.StateRetrying), string(client.StateDelivered), string(client.StateCancelled), string(client.StateDead))
}

// parse reads the flags into the request.
func (f *bulkFlags) parse() error {
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
	case f.r.Op == client.BulkMove && !exactlyOne(f.by, f.at, f.in):
		return errors.New("give one of --by, --at and --in")
	case f.r.Op == client.BulkPatch && !json.Valid([]byte(f.patch)):
		return errors.New("--patch is no JSON")
	}
	if f.patch != "" {
		f.r.Patch = json.RawMessage(f.patch)
	}
	return errors.Join(
		cli.Labels(&filter.Labels, f.labels), cli.ParseInto(&f.r.By, "by", f.by), f.setTime(),
		f.times.AtOrAfter(&filter.DueAfter, "due-after", f.dueAfter),
		f.times.AtOrAfter(&filter.DueBefore, "due-before", f.dueBefore),
	)
}

// setTime reads --at and --in.
func (f *bulkFlags) setTime() error {
	if f.in == "" {
		return f.times.Due(&f.r.To, "at", f.at)
	}
	var span time.Duration
	if err := cli.ParseInto(&span, "in", f.in); err != nil {
		return err
	}
	if span < 0 {
		return errors.New("--in is negative; --by moves tasks to an earlier time")
	}
	f.r.To = time.Now().Add(span)
	return nil
}

// exactlyOne reports whether one of the texts is not empty.
func exactlyOne(texts ...string) bool {
	n := 0
	for _, text := range texts {
		if text != "" {
			n++
		}
	}
	return n == 1
}

// count shows how many tasks pass the filter.
func (f *bulkFlags) count(cmd *cobra.Command, conn *client.Client, c *caller) error {
	matched, complete, err := conn.CountBulk(cmd.Context(), f.r)
	if err != nil {
		return err
	}
	return c.show(cmd, map[string]any{"matched": matched, "complete": complete}, func(t *output.Table) {
		t.Row("%s pass the filter; nothing was done", tasksOf(f.r.Op, matched, complete))
	})
}

// question counts the tasks that the operation would change.
func (f *bulkFlags) question(cmd *cobra.Command, conn *client.Client) (confirm.Question, error) {
	matched, complete, err := conn.CountBulk(cmd.Context(), f.r)
	if err != nil {
		return confirm.Question{}, err
	}
	q := bulkQuestion(f.r.Op, f.r.Filter, matched, complete)
	if f.by != "" {
		q.Effect += " by " + instant.Span(f.r.By)
	} else if !f.r.To.IsZero() {
		q.Effect += " to " + instant.Stamp(f.r.To)
	}
	return q, nil
}

// bulkVerbs are the verbs for the effect of a bulk operation on tasks.
var bulkVerbs = map[client.BulkOp]string{
	client.BulkCancel: "cancels", client.BulkMove: "moves", client.BulkPatch: "patches", client.BulkFire: "fires",
	client.BulkReplay: "replays", client.BulkPurge: "deletes",
}

func bulkQuestion(op client.BulkOp, filter client.BulkFilter, matched int, complete bool) confirm.Question {
	q := confirm.Question{Effect: bulkVerbs[op] + " " + tasksOf(op, matched, complete)}
	if filter.Queue != "" {
		q.Effect, q.Kind, q.Name = q.Effect+" of queue "+filter.Queue, "queue", filter.Queue
	}
	if !filter.DueAfter.IsZero() {
		q.Effect += " due from " + instant.Stamp(filter.DueAfter)
	}
	if !filter.DueBefore.IsZero() {
		q.Effect += " due before " + instant.Stamp(filter.DueBefore)
	}
	return q
}

// tasksOf describes a number of tasks or dead letters, which may be too low.
func tasksOf(op client.BulkOp, matched int, complete bool) string {
	noun := "task"
	if op == client.BulkReplay || op == client.BulkPurge {
		noun = "dead letter"
	}
	text := numberOfThings(int64(matched), noun)
	if !complete {
		return "at least " + text
	}
	return text
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
	return instant.Stamp(*at)
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
			add(name, instant.Stamp(at))
		}
	}
	slices.Sort(conditions)
	return conditions
}

// fillBulk adds the fields that only bulk operations have.
func fillBulk(t *output.Table, op *client.Operation) {
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
