// Package complete lets a shell complete arguments and flags with the names of a cluster: the ids of tasks and
// schedules, queues, nodes, and others.
//
//	`belfry task get ord<TAB>`  ──▶  the noun task, the placeholder ID  ──▶  Nouns["task"]  ──▶  ids that begin with ord
//
// Attach finds the noun of an argument in the command's usage line, so that a new command needs nothing but its line.
// A lookup takes patience at most, or what --timeout says before the word. It brings limit names at most, and says
// nothing of an error: a shell that completes has no place for it. Names with characters that a shell may interpret are
// left out.
package complete

import (
	"context"
	"fmt"
	"iter"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

const (
	patience = 500 * time.Millisecond
	limit    = 50
)

// Query is one completion: the beginning of a name, and the arguments before it.
type Query struct {
	Prefix string
	Args   []string
}

// Lister returns names with a few words about each. It need not filter by the prefix.
type Lister func(context.Context, *client.Client, Query) iter.Seq2[Name, error]

// Name is a name with a few words about it.
type Name struct{ Text, About string }

// Nouns are the listers of the things that commands name.
var Nouns = map[string]Lister{
	"task": func(ctx context.Context, c *client.Client, q Query) iter.Seq2[Name, error] {
		return tasks(ctx, c, client.Filter{Prefix: q.Prefix, PageSize: limit})
	},
	"dead letter": func(ctx context.Context, c *client.Client, q Query) iter.Seq2[Name, error] {
		return tasks(ctx, c, client.Filter{Prefix: q.Prefix, PageSize: limit, Queue: q.Args[0],
			States: []client.State{client.StateDead}})
	},
	"schedule": func(ctx context.Context, c *client.Client, q Query) iter.Seq2[Name, error] {
		found := c.Schedules(ctx, client.ScheduleFilter{Prefix: q.Prefix, PageSize: limit})
		return names(found, func(s *client.Schedule) Name { return Name{s.ID, cadence(s)} })
	},
	"queue": func(ctx context.Context, c *client.Client, _ Query) iter.Seq2[Name, error] {
		return names(c.Queues(ctx), func(q *client.Queue) Name { return Name{q.Name, backlog(q)} })
	},
	"calendar": all((*client.Client).Calendars, func(v *client.Calendar) Name { return Name{v.Name, v.TimeZone} }),
	"node":     all((*client.Client).Nodes, func(n *client.Node) Name { return Name{n.Name, life(n)} }),
	"namespace": all((*client.Client).Namespaces, func(n *client.Namespace) Name {
		return Name{n.Name, n.State}
	}),
	"key":   all((*client.Client).Keys, func(k *client.APIKey) Name { return Name{k.ID, k.Name} }),
	"token": all((*client.Client).JoinTokens, func(t *client.JoinToken) Name { return Name{t.ID, t.UsedName} }),
	"operation": all((*client.Client).Operations, func(o *client.Operation) Name {
		return Name{o.ID, fmt.Sprintf("%s, %s", o.Kind, o.State)}
	}),
	"shard": all(shards, func(s *client.Shard) Name {
		return Name{strconv.Itoa(int(s.ID)), fmt.Sprintf("%d tasks", s.Tasks)}
	}),
}

// arguments are the nouns of placeholders that name one by themselves. ID and NAME are of the command's own noun.
var arguments = map[string]string{"QUEUE": "queue", "NODE": "node", "SHARD": "shard"}

// flags are the nouns of flags.
var flags = map[string]string{"queue": "queue", "namespace": "namespace", "calendar": "calendar"}

// others are the nouns of arguments and flags by the command's path, where the rules above do not hold; "": none.
var others = map[string]string{
	"key create": "", "dead drop": "dead letter", "dead replay": "dead letter", "node token remove": "token",
	"shards move --to": "shard", "bench --queue": "",
}

// Attach makes the arguments and flags of all commands complete, if cmd is the command by which a shell asks for
// completions. Other commands need none, and attaching them takes more than half as long as making all commands.
func Attach(cmd *cobra.Command) {
	if name := cmd.Name(); name == cobra.ShellCompRequestCmd || name == cobra.ShellCompNoDescRequestCmd {
		attachBelow(cmd.Root())
	}
}

func attachBelow(parent *cobra.Command) {
	for _, cmd := range parent.Commands() {
		attachBelow(cmd)
		if cli.IsGroup(cmd) {
			continue
		}
		if cmd.ValidArgsFunction == nil && cmd.ValidArgs == nil {
			cmd.ValidArgsFunction = argumentsOf(cmd)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { attachFlag(cmd, f) })
	}
}

func attachFlag(cmd *cobra.Command, f *pflag.Flag) {
	words := f.Annotations[output.Words]
	if words == nil && (f.Value.Type() == "bool" || takesFile(f)) {
		return
	}
	complete := cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
	noun, special := others[path(cmd)+" --"+f.Name]
	if !special && cli.IsCall(cmd) {
		noun = flags[f.Name]
	}
	if noun != "" {
		complete = lookUp(noun, 0)
	}
	if err := cmd.RegisterFlagCompletionFunc(f.Name, complete); err != nil {
		panic(err) // the flag is one of the command's
	}
}

// takesFile reports whether the value of a flag is a file or a folder, by its usage.
func takesFile(f *pflag.Flag) bool {
	return strings.Contains(f.Usage, "file") || strings.Contains(f.Usage, "folder")
}

// path returns the path of a command below the root.
func path(cmd *cobra.Command) string {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	return path
}

// argumentsOf returns the completion of a command's arguments, by the placeholders of its usage line.
func argumentsOf(cmd *cobra.Command) cobra.CompletionFunc {
	placeholders := cli.Args(cmd.Use)
	if !cli.IsCall(cmd) && len(placeholders) > 0 {
		return nil // files, mostly
	}
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		noun, file := nounAt(cmd, placeholders, len(args))
		switch {
		case file:
			return nil, cobra.ShellCompDirectiveDefault
		case noun == "":
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return lookUp(noun, len(args))(cmd, args, prefix)
	}
}

// nounAt returns the noun of an argument, or whether it is a file.
func nounAt(cmd *cobra.Command, placeholders []cli.Arg, at int) (noun string, file bool) {
	last := len(placeholders) - 1
	if last < 0 || at > last && !placeholders[last].Repeated {
		return "", false
	}
	placeholder := placeholders[min(at, last)].Name
	if noun := arguments[placeholder]; noun != "" {
		return noun, false
	}
	if noun, special := others[path(cmd)]; special {
		return noun, false
	}
	if placeholder == "ID" || placeholder == "NAME" {
		return strings.TrimSuffix(cmd.Parent().Name(), "s"), false
	}
	return "", strings.HasSuffix(placeholder, "FILE")
}

// plain matches the names that mean nothing else to a shell.
var plain = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:~@-]*$`)

// lookUp completes with the names of a noun.
func lookUp(noun string, at int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		list := Nouns[noun]
		conn, err := connect(cmd)
		if err != nil || list == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer conn.Close()
		ctx := cmd.Context()
		if !cmd.Flags().Changed("timeout") {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, patience)
			defer cancel()
		}
		var found []cobra.Completion
		for name, err := range list(ctx, conn, Query{prefix, args}) {
			if err != nil || len(found) == limit {
				break
			}
			if !strings.HasPrefix(name.Text, prefix) || !plain.MatchString(name.Text) || slices.Contains(args[:at], name.Text) {
				continue
			}
			found = append(found, cobra.CompletionWithDesc(name.Text, strings.Join(strings.Fields(printable(name.About)), " ")))
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// printable returns a text without control characters.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// connect returns a client by the flags, the environment and the configuration file of a command.
func connect(cmd *cobra.Command) (*client.Client, error) {
	if err := cli.Apply(cmd, os.LookupEnv); err != nil {
		return nil, err
	}
	conn, err := cli.ConnectionOf(cmd.Flags())
	if err != nil {
		return nil, err
	}
	return conn.Open(func(cfg *client.Config) {
		if !cmd.Flags().Changed("timeout") {
			cfg.Timeout, cfg.AttemptTimeout = patience, patience/2
		}
	})
}

func tasks(ctx context.Context, c *client.Client, f client.Filter) iter.Seq2[Name, error] {
	return names(c.List(ctx, f), func(t *client.Task) Name {
		return Name{t.ID, fmt.Sprintf("%s, queue %s", t.State, t.Queue)}
	})
}

// names returns the names of a sequence of things.
func names[T any](things iter.Seq2[*T, error], name func(*T) Name) iter.Seq2[Name, error] {
	return func(yield func(Name, error) bool) {
		for v, err := range things {
			if err != nil {
				yield(Name{}, err)
				return
			}
			if !yield(name(v), nil) {
				return
			}
		}
	}
}

// all returns the lister of things that come in one list.
func all[T any](list func(*client.Client, context.Context) ([]T, error), name func(*T) Name) Lister {
	return func(ctx context.Context, c *client.Client, _ Query) iter.Seq2[Name, error] {
		return func(yield func(Name, error) bool) {
			things, err := list(c, ctx)
			if err != nil {
				yield(Name{}, err)
				return
			}
			for i := range things {
				if !yield(name(&things[i]), nil) {
					return
				}
			}
		}
	}
}

func shards(c *client.Client, ctx context.Context) ([]client.Shard, error) { //nolint:revive // the form of a method
	view, err := c.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	return view.Shards, nil
}

// cadence describes the rule of a schedule.
func cadence(s *client.Schedule) string {
	if s.Repeat.Every > 0 {
		return "every " + s.Repeat.Every.String()
	}
	return strings.Join(s.Repeat.Cron, "; ")
}

// backlog describes the tasks of a queue.
func backlog(q *client.Queue) string {
	if q.Counts == nil {
		return ""
	}
	n := q.Counts
	return fmt.Sprintf("%d waiting, %d ready, %d dead", n.Scheduled+n.Retrying, n.Ready, n.Dead)
}

// life describes the state of a node.
func life(n *client.Node) string {
	if !n.Alive {
		return "down"
	}
	return n.Order
}
