package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/instant"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
	"github.com/belfryhq/belfry/cmd/belfry/internal/progress"
	"github.com/belfryhq/belfry/imports"
	"github.com/belfryhq/belfry/imports/rabbitmq"
	"github.com/belfryhq/belfry/imports/redis"
	"github.com/belfryhq/belfry/imports/tables"
)

// importFlags are the settings of an import.
type importFlags struct {
	prefix, queue, rejects, verify string
	dryRun, move                   bool
	perSecond                      int
	unit                           string // of a CSV and of a sorted set
}

// The values of --verify.
const (
	verifyAfter = "after"
	verifyOnly  = "only"
	verifyNever = "never"
)

// importPassword is the environment variable with the password of a source. Other users of the machine see the URL.
const importPassword = "BELFRY_IMPORT_PASSWORD"

func newImport() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "import",
		Short: "Bring the tasks of other schedulers into a cluster",
		Long: `Bring the waiting tasks of other schedulers into a cluster.

The ids of the tasks derive from the records of the source, and a task is
scheduled only if there is none of that id. So an import that broke off is run
again, and goes on. A task of the same id with another content is a conflict: it
is named, and nothing changes.

An import copies. With --move the tasks leave their source, while its workers go
on taking theirs. No task is lost, and none is run by both sides. After a crash,
run the same import again: the records that were under way wait for it.

At the end, all tasks are read back and compared with their records. The exit
status is 1 if a record was refused, is in conflict, or has no equal task.`,
		Example: `  belfry import ndjson tasks.ndjson --dry-run
  belfry import asynq redis://127.0.0.1:6379/0 --move`,
	}, newImportNDJSON(), newImportCSV(), newImportCrontab(), newImportRedis(), newImportAsynq(), newImportBullMQ(),
		newImportCelery(), newImportSidekiq(), newImportRabbitMQ(), newImportRiver(), newImportDBScheduler(),
		newImportQuartz())
}

func newImportNDJSON() *cobra.Command {
	var f importFlags
	return f.verb(&cobra.Command{
		Use:   "ndjson [FILE]",
		Short: "Import tasks from lines of JSON",
		Long: `Import tasks from lines of JSON, in a file or from the standard input. A line is
the body of PUT /v1/tasks/{id} with the id as a further field. It needs fire_at
in place of a delay.`,
		Example: `  belfry import ndjson tasks.ndjson --rejects refused.ndjson
  zcat tasks.ndjson.gz | belfry import ndjson --prefix shop:`,
	}, func(c *cli.Call) (imports.Source, io.Closer, error) {
		in, err := input(c, c.Arg())
		return imports.NDJSON{In: in, Prefix: f.prefix, Queue: f.queue}, in, err
	})
}

func newImportCSV() *cobra.Command {
	var f importFlags
	var columns map[string]string
	cmd := f.verb(&cobra.Command{
		Use:   "csv [FILE]",
		Short: "Import tasks from the rows of a CSV",
		Long: `Import tasks from the rows of a CSV below its header, in a file or from the
standard input. The columns id and due are needed; queue and payload may be
there. --map names columns that are called otherwise. Without a column for it,
the payload is a JSON object of the whole row.

A due time is RFC 3339, or Unix time in seconds or milliseconds.`,
		Example: `  belfry import csv reminders.csv --queue reminders
  belfry import csv jobs.csv --map id=job_id,due=run_at --dry-run`,
	}, func(c *cli.Call) (imports.Source, io.Closer, error) {
		unit, err := f.readUnit()
		if err != nil {
			return nil, nil, cli.WrongUsage(err)
		}
		in, err := input(c, c.Arg())
		return imports.CSV{In: in, Columns: columns, Unit: unit, Prefix: f.prefix, Queue: f.queue}, in, err
	})
	f.addUnit(cmd)
	cmd.Flags().StringToStringVar(&columns, "map", nil, "`columns` of the fields id, due, queue and payload")
	return cmd
}

func newImportCrontab() *cobra.Command {
	var f importFlags
	var zone string
	var system bool
	cmd := f.verb(&cobra.Command{
		Use:   "crontab [FILE]",
		Short: "Import the lines of a crontab as schedules",
		Long: `Import the lines of a crontab as schedules, from a file or from the standard
input. The payload of each occurrence is {"command": "..."}, with the fields
stdin, environment and user if the line has them, for a consumer that runs the
command. Overlaps and outages are treated by the defaults of schedules.

cron reads the times in the zone of its machine, or of CRON_TZ. --tz names that
zone, unless it is UTC.`,
		Example: `  crontab -l | belfry import crontab --tz Europe/Berlin --queue jobs
  belfry import crontab /etc/crontab --system --dry-run`,
	}, func(c *cli.Call) (imports.Source, io.Closer, error) {
		if _, offset := time.Now().Zone(); offset != 0 && zone == "" {
			return nil, nil, cli.WrongUsage(errors.New("the times of a crontab are those of a machine: name its zone, as in " +
				"--tz Europe/Berlin"))
		}
		in, err := input(c, c.Arg())
		return imports.Crontab{In: in, TimeZone: zone, System: system, Prefix: f.prefix, Queue: f.queue}, in, err
	})
	flags := cmd.Flags()
	flags.StringVar(&zone, "tz", "", "time `zone` of lines without CRON_TZ (default UTC)")
	flags.BoolVar(&system, "system", false, "lines have a user in front of the command, as in /etc/crontab")
	setPrefix(cmd, "crontab-")
	return cmd
}

func newImportRedis() *cobra.Command {
	var f importFlags
	cmd := f.redisVerb(&cobra.Command{
		Use:   "redis URL KEY...",
		Short: "Import sorted sets whose scores are due times",
		Long: `Import sorted sets of a Redis whose scores are due times, in seconds or
milliseconds of Unix time. A member is the payload of its task. The id is the
key with a hash of the member.` + passwordHelp("Redis"),
		Example: `  belfry import redis redis://127.0.0.1:6379/0 delayed --queue mails --dry-run
  belfry import redis rediss://cache.example/2 delayed --move`,
	}, func(c *cli.Call, o redis.Options) (source, error) {
		unit, err := f.readUnit()
		if err != nil {
			return nil, cli.WrongUsage(err)
		}
		return redis.SortedSet(c.Context(), o, unit, c.Args[1:]...)
	})
	f.addUnit(cmd)
	return cmd
}

func newImportAsynq() *cobra.Command {
	var f importFlags
	return f.redisVerb(&cobra.Command{
		Use:   "asynq URL [QUEUE...]",
		Short: "Import the scheduled and the retried tasks of asynq",
		Long: `Import the tasks of asynq that are scheduled or wait for a retry, in these
queues, or in all. A task keeps its queue and its payload, has its type as the
label "type", and the attempts that are left. Tasks with headers are refused.` + passwordHelp("Redis"),
		Example: `  belfry import asynq redis://127.0.0.1:6379/0 --dry-run
  belfry import asynq redis://127.0.0.1:6379/0 mails --move`,
	}, func(c *cli.Call, o redis.Options) (source, error) {
		return redis.Asynq(c.Context(), o, c.Args[1:]...)
	})
}

func newImportBullMQ() *cobra.Command {
	var f importFlags
	return f.redisVerb(&cobra.Command{
		Use:   "bullmq URL QUEUE...",
		Short: "Import the delayed jobs of BullMQ",
		Long: `Import the delayed jobs of BullMQ in these queues. A queue with another prefix
than bull is given with it, as in jobs:mails. A task keeps its queue and its
data, has its name as the label "type", and the attempts that are left. Jobs of
repeating jobs and children of flows are refused.` + passwordHelp("Redis"),
		Example: `  belfry import bullmq redis://127.0.0.1:6379/0 mails --dry-run
  belfry import bullmq redis://127.0.0.1:6379/0 mails reports --move`,
	}, func(c *cli.Call, o redis.Options) (source, error) {
		return redis.BullMQ(c.Context(), o, c.Args[1:]...)
	})
}

func newImportCelery() *cobra.Command {
	var f importFlags
	var target string
	cmd := f.redisVerb(&cobra.Command{
		Use:   "celery URL [QUEUE...]",
		Short: "Import the tasks of Celery with an ETA or a countdown",
		Long: `Import the tasks of Celery with an ETA or a countdown, in these queues, or in
the queue celery. A task keeps its queue, and has its name as the label "type".
Its payload is the message of Celery, and its target pushes the message onto its
list at the ETA, for a worker that needs no change.

Stop all workers first: they keep such tasks in their memory. Tasks without an
ETA stay in the Redis. --target is the Redis at the address that the nodes of
Belfry use; their --brokers file must name it.` + passwordHelp("Redis"),
		Example: `  belfry import celery redis://127.0.0.1:6379/0 --dry-run
  belfry import celery redis://127.0.0.1/0 --move --target redis://cache/0`,
	}, func(c *cli.Call, o redis.Options) (source, error) {
		return redis.OpenCelery(c.Context(), o, target, c.Args[1:]...)
	})
	cmd.Flags().StringVar(&target, "target", "", "`URL` of the Redis for the nodes of Belfry (default: the one to import)")
	return cmd
}

func newImportSidekiq() *cobra.Command {
	var f importFlags
	return f.redisVerb(&cobra.Command{
		Use:   "sidekiq URL",
		Short: "Import the scheduled and the retried jobs of Sidekiq",
		Long: `Import the jobs of Sidekiq that are scheduled or wait for a retry. The payload
of a task is the whole job, with its class and its arguments. A task keeps its
queue, has its class as the label "type", and the attempts that are left.` + passwordHelp("Redis"),
		Example: `  belfry import sidekiq redis://127.0.0.1:6379/0 --dry-run
  belfry import sidekiq redis://127.0.0.1:6379/0 --move`,
	}, func(c *cli.Call, o redis.Options) (source, error) { return redis.Sidekiq(c.Context(), o) })
}

func newImportRabbitMQ() *cobra.Command {
	var f importFlags
	var o rabbitmq.Options
	cmd := f.moving(f.verb(&cobra.Command{
		Use:   "rabbitmq URL QUEUE",
		Short: "Import the messages that wait in a queue of RabbitMQ",
		Long: `Import the messages that wait in a queue of RabbitMQ until their time to live is
over and they are dead-lettered. A task publishes its message to the exchange
where it would have gone, when it would have gone there.

--ttl, --exchange and --routing-key are the arguments of the queue, which
RabbitMQ does not tell: x-message-ttl, x-dead-letter-exchange and
x-dead-letter-routing-key. The age of a message is that of its x-death or of its
timestamp. Without these its time to live begins anew.

--target is the RabbitMQ at the address that the nodes of Belfry use; their
--brokers file must name it. The messages that the import leaves return to their
queue at its end.` + passwordHelp("RabbitMQ"),
		Example: `  belfry import rabbitmq amqp://rabbit/ retry --ttl 1h --exchange work --dry-run
  belfry import rabbitmq amqp://rabbit/ wait --exchange work --move`,
	}, func(c *cli.Call) (imports.Source, io.Closer, error) {
		switch {
		case !c.Command.Flags().Changed("exchange"):
			return nil, nil, cli.WrongUsage(errors.New("--exchange is missing: the x-dead-letter-exchange of the queue, " +
				"empty for the default exchange"))
		case !f.move && !f.dryRun:
			return nil, nil, cli.WrongUsage(errors.New("the messages of a queue cannot be copied, as the RabbitMQ goes on " +
				"with them: give --move, or --dry-run"))
		}
		o.URL, o.Queue, o.Password, o.Prefix, o.Into = c.Args[0], c.Args[1], os.Getenv(importPassword), f.prefix, f.queue
		source, err := rabbitmq.Open(o)
		return source, source, err
	}), "RabbitMQ")
	flags := cmd.Flags()
	flags.Var(cli.NewSpan(&o.TTL, 0), "ttl", "`duration` that the queue keeps messages (default: each has an expiration)")
	flags.StringVar(&o.Exchange, "exchange", "", "`name` of the exchange to which the queue dead-letters")
	flags.StringVar(&o.RoutingKey, "routing-key", "", "`key` with which the queue dead-letters (default: the message's)")
	flags.StringVar(&o.Target, "target", "", "`URL` of the RabbitMQ for the nodes of Belfry (default: the one to import)")
	flags.BoolVar(&o.FromNow, "from-now", false, "let all times to live begin now, whatever the messages' timestamps")
	flags.BoolVar(&o.Lossy, "lossy", false, "leave out the properties and headers that a target cannot carry")
	return cmd
}

// passwordHelp is the end of the help of a command whose source needs a password.
func passwordHelp(source string) string {
	return `

The password of the ` + source + ` can stand in BELFRY_IMPORT_PASSWORD instead of
the URL, which other users of the machine can see.`
}

// source is a Source that is open until it is closed.
type source interface {
	imports.Source
	io.Closer
}

// redisVerb completes a command whose source is a Redis.
func (f *importFlags) redisVerb(
	cmd *cobra.Command, open func(*cli.Call, redis.Options) (source, error),
) *cobra.Command {
	return f.moving(f.verb(cmd, func(c *cli.Call) (imports.Source, io.Closer, error) {
		source, err := open(c, redis.Options{
			URL: c.Args[0], Password: os.Getenv(importPassword), Prefix: f.prefix, Queue: f.queue,
		})
		return source, source, err
	}), "Redis")
}

func newImportRiver() *cobra.Command {
	return newImportTable(&cobra.Command{
		Use:   "river URL",
		Short: "Import the scheduled and the retried jobs of River",
		Long: `Import the jobs of River that are scheduled or wait for a retry. A task keeps
its queue. It has the arguments as its payload, the kind as the label "type",
and the attempts that are left. Priorities, metadata, tags and unique keys are
left behind.`,
		Example: `  belfry import river postgres://app@db.example/app --dry-run
  belfry import river postgres://app@db.example/app --move`,
	}, "`name` of the table (default river_job)", tables.River)
}

func newImportDBScheduler() *cobra.Command {
	return newImportTable(&cobra.Command{
		Use:   "db-scheduler URL",
		Short: "Import the executions of db-scheduler",
		Long: `Import the executions of db-scheduler that no scheduler has picked, from a
PostgreSQL or a MySQL. The payload is the task data as its serializer has
written it: JSON, text, or the bytes of a Java object. The label
"type" is the name of the task, and the id ends with that of the instance.
Recurring tasks are refused, since their rules are in the program.`,
		Example: `  belfry import db-scheduler postgres://app@db/app --queue mails --dry-run
  belfry import db-scheduler mysql://app@db/app --queue mails --move`,
	}, "`name` of the table (default scheduled_tasks)", tables.DBScheduler)
}

func newImportQuartz() *cobra.Command {
	return newImportTable(&cobra.Command{
		Use:   "quartz URL",
		Short: "Import the triggers of Quartz",
		Long: `Import the triggers of Quartz from a PostgreSQL or a MySQL. A trigger with one
time left becomes a task. Other simple triggers and cron triggers become
schedules. The payload is {"class", "job", "job_group", "trigger",
"trigger_group", "job_data", "trigger_data"}: data as the text of a properties
file (useProperties), or {"base64": ...} of the bytes of a Java map. The label
"type" is the class.

Refused are triggers that are paused, that have a calendar or a year in their
expression, or are of another type.`,
		Example: `  belfry import quartz postgres://app@db.example/app --queue jobs --dry-run
  belfry import quartz mysql://app@db.example/app --queue jobs --move`,
	}, "`prefix` of the tables (default QRTZ_)", tables.Quartz)
}

// newImportTable completes a command whose source is a table.
func newImportTable(
	cmd *cobra.Command, table string, open func(context.Context, tables.Options) (*tables.Source, error),
) *cobra.Command {
	var f importFlags
	o := tables.Options{}
	cmd.Long += passwordHelp("database")
	f.moving(f.verb(cmd, func(c *cli.Call) (imports.Source, io.Closer, error) {
		o.URL, o.Password, o.Prefix, o.Queue = c.Args[0], os.Getenv(importPassword), f.prefix, f.queue
		source, err := open(c.Context(), o)
		return source, source, err
	}), "database")
	cmd.Flags().StringVar(&o.Table, "table", "", table)
	return cmd
}

// moving adds --move to the command of a source that can give its tasks away.
func (f *importFlags) moving(cmd *cobra.Command, source string) *cobra.Command {
	cmd.Flags().BoolVar(&f.move, "move", false, "take the tasks out of the "+source)
	return cmd
}

// verb completes a command that imports the source that open returns. The closer is closed after the import.
func (f *importFlags) verb(
	cmd *cobra.Command, open func(*cli.Call) (imports.Source, io.Closer, error),
) *cobra.Command {
	cmd = cli.PlainVerb(cmd, func(c *cli.Call) error {
		if err := f.check(); err != nil {
			return cli.WrongUsage(err)
		}
		source, closer, err := open(c)
		if err != nil {
			return err
		}
		defer func() { _ = closer.Close() }() // it was only read, or its calls were answered
		return f.run(c, source)
	})
	flags := cmd.Flags()
	flags.StringVar(&f.prefix, "prefix", "", "`text` in front of the ids of all tasks")
	flags.StringVarP(&f.queue, "queue", "q", "", "`queue` of tasks (default: that of the source, or \"default\")")
	flags.BoolVar(&f.dryRun, "dry-run", false, "read the source, count, and show the first tasks; change nothing")
	flags.StringVar(&f.verify, "verify", verifyAfter, "`time` to compare all tasks with the source: after the import, "+
		"only, which imports nothing, or never")
	flags.StringVar(&f.rejects, "rejects", "", "write the records that are refused or in conflict to this `file`, a "+
		"line of JSON each")
	flags.IntVar(&f.perSecond, "per-second", 0, "most `tasks` a second (default: no limit)")
	cli.CompleteWords(cmd, "verify", verifyAfter, verifyOnly, verifyNever)
	return cmd
}

// setPrefix changes the default of --prefix.
func setPrefix(cmd *cobra.Command, prefix string) {
	f := cmd.Flags().Lookup("prefix")
	f.DefValue = prefix
	if err := f.Value.Set(prefix); err != nil {
		panic(err) // any text is a prefix
	}
}

func (f *importFlags) addUnit(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.unit, "unit", string(imports.Auto), "`unit` of due times that are numbers: s, ms, or auto, "+
		"by their size")
	cli.CompleteWords(cmd, "unit", string(imports.Auto), string(imports.Seconds), string(imports.Milliseconds))
}

func (f *importFlags) readUnit() (imports.Unit, error) {
	unit := imports.Unit(f.unit)
	if !slices.Contains([]imports.Unit{imports.Auto, imports.Seconds, imports.Milliseconds}, unit) {
		return unit, fmt.Errorf("--unit is %q: s, ms or auto", f.unit)
	}
	return unit, nil
}

func (f *importFlags) check() error {
	switch {
	case !slices.Contains([]string{verifyAfter, verifyOnly, verifyNever}, f.verify):
		return fmt.Errorf("--verify is %q: after, only or never", f.verify)
	case f.perSecond < 0:
		return fmt.Errorf("--per-second is %d: 0 or more", f.perSecond)
	case f.dryRun && f.verify == verifyOnly:
		return errors.New("--dry-run reads no task of the cluster: leave out --verify only")
	case f.move && f.verify == verifyOnly:
		return errors.New("--move takes tasks out of the source: leave out --verify only")
	}
	return nil
}

// run imports a source, and prints the totals.
func (f *importFlags) run(c *cli.Call, source imports.Source) error {
	conn, err := c.Connection.Open(func(cfg *client.Config) { cfg.SingleCalls, cfg.FixedAddrs = false, false })
	if err != nil {
		return err
	}
	defer conn.Close()
	troubles, err := openTroubles(f.rejects)
	if err != nil {
		return cli.WrongUsage(err)
	}
	meter := progress.New(c.Stderr())
	var totals imports.Totals
	switch {
	case f.dryRun:
		totals, err = imports.Preview(c.Context(), source, newSample(c), troubles.add)
	case f.verify == verifyOnly:
		totals, err = imports.Check(c.Context(), source, conn, troubles.add)
	default:
		totals, err = imports.Run(c.Context(), source, conn, imports.Options{
			Move: f.move, PerSecond: f.perSecond, Verify: f.verify == verifyAfter, Report: troubles.add,
			Progress: progressOfImport(c.Context(), meter, source),
		})
	}
	meter.Close()
	if err != nil && f.move {
		c.Note("the tasks that were under way are claimed: run the same import again, and it goes on with them")
	}
	err = errors.Join(err, troubles.close(c), output.Show(c.Out, totals, f.fill))
	if err == nil && totals.Failed() > 0 {
		return errSaid
	}
	return err
}

// fill adds the totals of an import.
func (f *importFlags) fill(t *output.Table, totals imports.Totals) {
	count := func(name string, n int) { t.Field(name, output.Grouped(int64(n))) }
	count("read", totals.Read)
	switch {
	case f.dryRun:
		count("would be scheduled", totals.Scheduled)
	case f.verify != verifyOnly:
		count("scheduled", totals.Scheduled)
		count("existing", totals.Existing)
		count("conflicts", totals.Conflicts)
	}
	count("left", totals.Left)
	count("refused", totals.Refused)
	if v := totals.Verified; v != nil {
		count("same", v.Same)
		count("finished", v.Finished)
		count("missing", v.Missing)
		count("different", v.Different)
	}
}

// progressOfImport returns a function that shows the totals. The share is known of a source that can count its records.
func progressOfImport(ctx context.Context, meter *progress.Meter, source imports.Source) func(imports.Totals) {
	var all int64
	if counted, ok := source.(interface {
		Count(context.Context) (int64, error)
	}); ok {
		all, _ = counted.Count(ctx) // without it there is no share
	}
	return func(totals imports.Totals) {
		state := progress.State{
			Work: "import", Count: int64(totals.Read), Unit: "records", Share: progress.Unknown,
		}
		if all > 0 {
			state.Share = min(float64(totals.Read)/float64(all), 1)
		}
		meter.Show(state)
	}
}

const sampled = 5 // records that a dry run shows

// newSample returns a function that shows the first records of a dry run.
func newSample(c *cli.Call) func(*imports.Record) {
	n := 0
	return func(r *imports.Record) {
		if n++; n > sampled {
			return
		}
		task, id, when := &r.Task, r.Task.ID, instant.Stamp(r.Task.FireAt)
		if r.Schedule != nil {
			task, id = &r.Schedule.Task, r.Schedule.ID
			when = strings.Join(r.Schedule.Repeat.Cron, ", ")
		}
		queue := cmp.Or(task.Queue, "default")
		c.Note("%s", output.Text(fmt.Sprintf("%s: %s, %s, queue %s: %s", r.Key, id, when, queue, payload(task))))
	}
}

// troubles names the records that are not in the cluster as the source has them: the first ones on the standard error
// after the import, and all in a file.
type troubles struct {
	file  *os.File // nil: there is none
	err   error    // of the first write that failed
	first []imports.Trouble
	count int
}

const namedTroubles = 20 // on the standard error

// openTroubles makes the file with a name; empty: none. The records may hold secrets.
func openTroubles(name string) (*troubles, error) {
	t := new(troubles)
	if name == "" {
		return t, nil
	}
	var err error
	t.file, err = os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	return t, err
}

func (t *troubles) add(trouble imports.Trouble) {
	if t.count++; t.count <= namedTroubles {
		t.first = append(t.first, trouble)
	}
	if t.file != nil && t.err == nil {
		t.err = json.NewEncoder(t.file).Encode(trouble)
	}
}

// close prints the first troubles.
func (t *troubles) close(c *cli.Call) error {
	for _, trouble := range t.first {
		name := trouble.Key
		if name == "" {
			name = trouble.ID
		}
		c.Note("%s", output.Text(name+": "+trouble.Reason))
	}
	if more := t.count - len(t.first); more > 0 {
		c.Note("and %s more; --rejects names all", output.Grouped(int64(more)))
	}
	if t.file == nil {
		return nil
	}
	return errors.Join(t.err, t.file.Close())
}
