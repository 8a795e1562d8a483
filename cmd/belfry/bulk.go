package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/instant"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

// bulkCommand is a command that begins a bulk operation.
type bulkCommand struct {
	op            client.BulkOp
	schedules     bool // the operation is on schedules
	short, detail string
	example       string
}

var bulkCommands = []bulkCommand{
	{client.BulkCancel, false, "Cancel all tasks that pass a filter",
		"Tasks that are being attempted get no further attempt.",
		`  belfry operation cancel --queue reports --label tenant=acme --dry-run
  belfry operation cancel --queue reports --label tenant=acme --yes --wait`},
	{client.BulkMove, false, "Change when all tasks that pass a filter fire",
		"Tasks that have been attempted do not move.",
		`  belfry operation move --queue reports --due-before 1h --by 2h
  belfry operation move --prefix order- --at "tomorrow 9:00" --yes --wait`},
	{client.BulkPatch, false, "Patch all tasks that pass a filter",
		"The patch is JSON, with the members target (without headers), retry and\n" +
			"labels. Tasks that have been attempted stay as they are.",
		`  belfry operation patch --queue reports --patch '{"labels":{"tenant":"acme"}}'
  belfry operation patch --all --patch '{"retry":{"max_attempts":3}}' --yes`},
	{client.BulkFire, false, "Make all tasks that pass a filter due now", "Retrying tasks are attempted at once.",
		`  belfry operation fire --queue reports --due-before 1h --per-second 100 --yes`},
	{client.BulkReplay, false, "Make all dead letters that pass a filter due again", "Their attempts count from 0.",
		`  belfry operation replay --queue reports --label tenant=acme --yes --wait`},
	{client.BulkPurge, false, "Delete all dead letters that pass a filter, for ever", "They cannot be brought back.",
		`  belfry operation purge --queue reports --due-before 2030-01-01T00:00:00Z --yes`},
	{client.BulkPause, true, "Pause all schedules that pass a filter",
		"Occurrences under way go on, and none begins. A schedule that is paused\nalready keeps its note.",
		`  belfry operation pause-schedules --label team=billing --yes \
    --note "until the migration ends"`},
	{client.BulkResume, true, "End the pause of all schedules that pass a filter",
		"Their rules go on from now.",
		`  belfry operation resume-schedules --label team=billing --yes --wait`},
	{client.BulkDelete, true, "Delete all schedules that pass a filter", "Their occurrences under way go on.",
		`  belfry operation delete-schedules --prefix trial- --dry-run
  belfry operation delete-schedules --prefix trial- --yes --wait`},
	{client.BulkPatch, true, "Patch all schedules that pass a filter",
		"The patch is JSON, with the members repeat, misfire, misfire_window,\n" +
			"overlap, paused, note, and task with the members target (without headers),\n" +
			"retry and labels. A schedule whose rule would be wrong stays as it is.",
		`  belfry operation patch-schedules --all --yes \
    --patch '{"repeat":{"calendar":"de"}}'`},
}

// newBulks returns the commands that begin bulk operations.
func newBulks() (commands []*cobra.Command) {
	for _, b := range bulkCommands {
		commands = append(commands, newBulk(b))
	}
	return commands
}

func newBulk(b bulkCommand) *cobra.Command {
	var dryRun bool
	name, noun := string(b.op), "task"
	if b.schedules {
		name, noun = name+"-schedules", "schedule"
	}
	f := &bulkFlags{r: client.BulkRequest{Op: b.op, Schedules: b.schedules}, noun: noun}
	cmd := cli.Asking(withKeyFlag(operationVerb(&cobra.Command{
		Use:   name,
		Short: b.short,
		Long: b.short + `, in one namespace.
` + b.detail + `

The cluster walks the ` + noun + `s by itself, and goes on after every failure. Each
matching one gets one call, and each outcome is counted once. A ` + noun + ` that is
created behind the walk is not seen.`,
		Example: b.example,
	}, func(c *cli.Call) (*client.Operation, error) {
		if err := f.parse(); err != nil {
			return nil, cli.WrongUsage(err)
		}
		if dryRun {
			return nil, f.count(c)
		}
		if err := c.Ask(func() (cli.Question, error) { return f.question(c) }); err != nil {
			return nil, err
		}
		return c.Client.BeginBulk(c.Context(), f.r, keyOption(c)...)
	})))
	f.addFlags(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only count the "+noun+"s that pass the filter now")
	return cmd
}

// bulkFlags are the flags of a bulk operation, as given.
type bulkFlags struct {
	filterFlags
	r          client.BulkRequest
	noun       string // task or schedule
	queue      string
	states     []string
	by, in, at string
	patch      string
}

func (f *bulkFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.r.All, "all", false, "every one of the namespace, if no filter is given")
	flags.IntVar(&f.r.PerSecond, "per-second", 0, "most `calls` a second (default: 5000, over all bulk operations)")
	flags.StringVarP(&f.queue, "queue", "q", "", "only those of this `queue`")
	if f.r.Schedules {
		f.addNameFlags(cmd)
	} else {
		flags.StringSliceVarP(&f.states, "state", "s", nil, "only tasks in these `states` (default: all that it can change)")
		f.filterFlags.addFlags(cmd)
		completeStates(cmd)
	}
	switch f.r.Op {
	case client.BulkPause, client.BulkResume:
		flags.StringVar(&f.r.Note, "note", "", noteUsage)
	case client.BulkMove:
		flags.StringVar(&f.by, "by", "", "a `duration` to add to the time of each task; it may be negative")
		flags.StringVar(&f.at, "at", "", "the new `instant` of all tasks")
		flags.StringVar(&f.in, "in", "", "a `duration` from now, to the new instant of all tasks")
		cli.HiddenName(cmd, "to", "at")
	case client.BulkPatch:
		flags.StringVar(&f.patch, "patch", "", "the merge patch, as `JSON`")
	}
}

// parse reads the flags into the request.
func (f *bulkFlags) parse() (err error) {
	filtered := f.given() || f.queue != "" || len(f.states) > 0
	switch {
	case !filtered && !f.r.All:
		return fmt.Errorf("give a filter, or --all for every %s of the namespace", f.noun)
	case filtered && f.r.All:
		return errors.New("--all is given beside a filter")
	case f.r.Op == client.BulkMove && !exactlyOne(f.by, f.at, f.in):
		return errors.New("give one of --by, --at and --in")
	case f.r.Op == client.BulkPatch && !json.Valid([]byte(f.patch)):
		return errors.New("--patch is no JSON")
	}
	if f.patch != "" {
		f.r.Patch = json.RawMessage(f.patch)
	}
	if err := errors.Join(cli.ParseInto(&f.r.By, "by", f.by), f.setTime()); err != nil {
		return err
	}
	f.r.Filter, err = f.read()
	f.r.Filter.Queue, f.r.Filter.States = f.queue, readStates(f.states)
	return err
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

// count shows how many tasks pass the filter.
func (f *bulkFlags) count(c *cli.Call) error {
	matched, complete, err := c.Client.CountBulk(c.Context(), f.r)
	if err != nil {
		return err
	}
	answer := map[string]any{"matched": matched, "complete": complete}
	return output.Show(c.Out, answer, func(t *output.Table, _ map[string]any) {
		t.Row("%s pass the filter; nothing was done", matchedOf(f.r, matched, complete))
	})
}

// question counts the tasks that the operation would change.
func (f *bulkFlags) question(c *cli.Call) (cli.Question, error) {
	matched, complete, err := c.Client.CountBulk(c.Context(), f.r)
	if err != nil {
		return cli.Question{}, err
	}
	q := bulkQuestion(f.r, matched, complete)
	if f.by != "" {
		q.Effect += " by " + instant.Span(f.r.By)
	} else if !f.r.To.IsZero() {
		q.Effect += " to " + instant.Stamp(f.r.To)
	}
	return q, nil
}

// bulkVerbs are the verbs for the effect of a bulk operation.
var bulkVerbs = map[client.BulkOp]string{
	client.BulkCancel: "cancels", client.BulkMove: "moves", client.BulkPatch: "patches", client.BulkFire: "fires",
	client.BulkReplay: "replays", client.BulkPurge: "deletes", client.BulkPause: "pauses",
	client.BulkResume: "resumes", client.BulkDelete: "deletes",
}

func bulkQuestion(r client.BulkRequest, matched int, complete bool) cli.Question {
	filter, q := r.Filter, cli.Question{Effect: bulkVerbs[r.Op] + " " + matchedOf(r, matched, complete)}
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

// matchedOf describes a number of tasks, dead letters or schedules, which may be too low.
func matchedOf(r client.BulkRequest, matched int, complete bool) string {
	noun := "task"
	switch {
	case r.Schedules:
		noun = "schedule"
	case r.Op == client.BulkReplay || r.Op == client.BulkPurge:
		noun = "dead letter"
	}
	text := output.Many(matched, noun)
	if !complete {
		return "at least " + text
	}
	return text
}

func bulkNoun(op *client.Operation) string { return cmp.Or(op.Of, "tasks") }

// bulkSummary returns a bulk operation in few words: "cancel tasks of shop: queue=reports".
func bulkSummary(op *client.Operation) string {
	text := fmt.Sprintf("%s %s of %s", op.Op, bulkNoun(op), op.Namespace)
	switch {
	case op.Op != client.BulkMove:
	case op.By != "":
		text += " by " + op.By
	case op.FireAt != nil:
		text += " to " + instant.Stamp(op.FireAt.Time)
	default:
		text += " to "
	}
	if conditions := conditionsOf(op.Filter); len(conditions) > 0 {
		text += ": " + strings.Join(conditions, " ")
	}
	return text
}

// conditionsOf returns the conditions of a filter, as in queue=reports.
func conditionsOf(f *client.OperationFilter) (conditions []string) {
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
	conditions = append(conditions, texts(f.Labels, func(label string) string { return "label=" + label })...)
	add("state", strings.Join(texts(f.States, func(s client.State) string { return string(s) }), ","))
	for name, at := range map[string]*client.Instant{"due_after": f.DueAfter, "due_before": f.DueBefore} {
		if at != nil {
			add(name, instant.Stamp(at.Time))
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
func outcomesOf(op *client.Operation) string { return strings.Join(listed(op.Outcomes, "%s %d"), ", ") }
