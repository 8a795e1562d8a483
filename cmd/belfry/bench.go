package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/bench"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

// benchFlags are the settings of belfry bench.
type benchFlags struct {
	bench.Config
	span time.Duration
}

func newBench() *cobra.Command {
	f := &benchFlags{}
	cmd := cli.Asking(cli.PlainVerb(&cobra.Command{
		Use:   "bench",
		Short: "Measure a cluster: the latency of calls, the lateness of tasks",
		Long: `Measure a cluster for about 20 seconds. Bench schedules tasks into a queue of
its own, cancels every tenth, and receives the others. The report has calls a
second, the latency of calls and the lateness of tasks. It counts tasks that
were lost, came early, came twice or came after their cancel. Bench removes its
tasks and its queue at the end, and after ctrl-c. It asks first if the cluster
holds tasks, which share the load.

Calls begin at planned times, --rate a second. The latency of a call counts from
its planned time, so a stall shows in all calls that it delays. --rate 0 makes
calls back to back instead: the most that the cluster does, but not the latency
that programs see.

Tasks are due 1 to 4 seconds after their call. Lateness is the time from the due
time by the cluster's clock to the receipt by this machine's. The difference of
the clocks is estimated, as NTP does, to half a round trip; the report shows it.
Lateness includes the way here, and what this machine lacks in speed: measure
from a machine near the nodes, and not from one of them.

Tasks come by leases. --webhook URL receives them by HTTP instead: the nodes
must reach the URL at this machine, and may need serve --allow-webhook-cidr.`,
		Example: `  belfry bench
  belfry bench --rate 2000 --for 1m --clients 200
  belfry bench --rate 0 --tasks 50000 --json | jq .schedule.per_second
  belfry bench --webhook http://10.0.0.7:9000/`,
	}, f.run))
	flags := cmd.Flags()
	flags.Float64Var(&f.Rate, "rate", 200, "tasks to schedule a second; 0: as many as possible")
	flags.Var(cli.NewSpan(&f.span, 15*time.Second), "for", "how long to schedule")
	flags.IntVar(&f.Tasks, "tasks", 0, "tasks to schedule (default: --rate times --for)")
	flags.IntVar(&f.Payload, "payload", 100, "size of a task's payload in `bytes`")
	flags.IntVar(&f.Callers, "clients", 50, "calls under way at once")
	flags.StringVarP(&f.Queue, "queue", "q", "", "`name` of a queue that does not exist (default: a random one)")
	flags.StringVar(&f.Webhook, "webhook", "", "`URL` at this machine by which nodes deliver")
	flags.StringVar(&f.Listen, "listen", "", "`address` to listen at for --webhook (default: the port of the URL)")
	return cmd
}

func (f *benchFlags) run(c *cli.Call) error {
	if err := f.complete(c.Given("for")); err != nil {
		return cli.WrongUsage(err)
	}
	for _, conn := range []**client.Client{&f.Calls, &f.Receiver} { // as programs have that call often
		opened, err := c.Connection.Open(func(cfg *client.Config) { cfg.SingleCalls, cfg.FixedAddrs = false, false })
		if err != nil {
			return err
		}
		defer opened.Close()
		*conn = opened
	}
	if err := f.askForLoad(c); err != nil {
		return err
	}
	report, err := bench.Run(c.Context(), f.Config)
	if report != nil {
		err = errors.Join(err, output.Show(c.Out, report, fillBench))
	}
	switch {
	case err != nil:
		return err
	case report.Interrupted:
		return context.Canceled
	case report.Wrong():
		return errSaid
	}
	return nil
}

// complete sets the values that depend on others.
func (f *benchFlags) complete(hasSpan bool) error {
	switch {
	case f.Rate == 0 && (f.Tasks == 0 || hasSpan):
		return errors.New("--rate 0 needs --tasks, and takes no --for")
	case f.Tasks != 0 && hasSpan:
		return errors.New("--tasks and --for exclude each other: give --rate with one of them")
	case f.Listen != "" && f.Webhook == "":
		return errors.New("--listen is for --webhook")
	case f.Tasks == 0:
		f.Tasks = int(math.Ceil(f.Rate * f.span.Seconds()))
	}
	if f.Queue == "" {
		f.Queue = bench.NewQueue()
	}
	return f.Validate()
}

// askForLoad tells the effect, and asks whether to go on if the cluster holds tasks.
func (f *benchFlags) askForLoad(c *cli.Call) error {
	pace := "as fast as possible"
	if f.Rate > 0 {
		pace = fmt.Sprintf("%.4g a second", f.Rate)
	}
	c.Note("schedules %d tasks of %d bytes, %s, in the queue %s, and removes them", f.Tasks, f.Payload, pace,
		f.Queue)
	if c.Yes() {
		return nil
	}
	held, err := heldTasks(c.Context(), f.Receiver)
	if err != nil || held == 0 {
		return err
	}
	others := output.Many(held, "unfinished task")
	if !cli.IsTerminal(c.In()) {
		return cli.WrongUsage(fmt.Errorf("the cluster holds %s, which share the load: give --yes, since there is no "+
			"terminal to ask at", others))
	}
	return cli.Question{Effect: "loads a cluster that holds " + others}.Ask(c.Context(), c.In(), c.Stderr())
}

// heldTasks returns the number of unfinished tasks in the namespace, or of the tasks that come due in the whole cluster
// within an hour if they are more and the key sees them.
func heldTasks(ctx context.Context, c *client.Client) (held uint64, err error) {
	for q, err := range c.Queues(ctx) {
		if err != nil {
			return 0, err
		}
		held += q.Counts.Unfinished()
	}
	wheel, err := c.Wheel(ctx, 0)
	if errors.Is(err, client.ErrForbidden) {
		return held, nil
	}
	if err != nil {
		return 0, err
	}
	return max(held, wheel.DueWithin.Hour), nil
}

func fillBench(t *output.Table, r *bench.Report) {
	t.Row("\tDONE\tFAILED\tPER SECOND\tP50\tP99\tMAX")
	row := func(name string, done, failed int, rate float64, s bench.Spread) {
		t.Row("%s\t%d\t%d\t%.1f\t%.1f ms\t%.1f ms\t%.1f ms", name, done, failed, rate, s.P50, s.P99, s.Max)
	}
	row("schedule, latency", r.Schedule.Done, r.Schedule.Failed, r.Schedule.PerSecond, r.Schedule.LatencyMs)
	row("cancel, latency", r.Cancel.Done, r.Cancel.Failed, r.Cancel.PerSecond, r.Cancel.LatencyMs)
	d := &r.Delivery
	row(r.By+", lateness", d.Received, d.Lost, d.PerSecond, d.LatenessMs)
	t.Row("\nlost %d, early %d, after a cancel %d, repeated %d", d.Lost, d.Early, d.AfterCancel, d.Repeated)
	if r.Interrupted {
		t.Row("interrupted: %d tasks had not arrived yet, and none counts as lost", d.Pending)
	}
	for _, text := range []string{r.Schedule.Error, r.Cancel.Error} {
		if text != "" {
			t.Row("a call failed: %s", text)
		}
	}
	t.Row("the cluster's clock minus this machine's: %+.1f ms, ± %.1f ms; lateness is exact to that", r.Clock.OffsetMs,
		r.Clock.ErrorMs)
	if r.Rate > 0 && r.Schedule.PerSecond < 0.95*r.Rate && !r.Interrupted {
		t.Row("calls fell behind %.4g a second: the latency has the wait for a free client; see --clients", r.Rate)
	}
	if r.Rate == 0 {
		t.Row("calls were made back to back: the latency leaves out the calls that a stall would have delayed")
	}
	t.Row("removed the queue %s and %d unfinished tasks; finished ones can be read for another minute", r.Queue, r.Removed)
}
