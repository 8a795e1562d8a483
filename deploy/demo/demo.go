package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/receiver"
	"github.com/belfryhq/belfry/internal/wait"
)

// run is one demo in progress.
type run struct {
	cfg      Config
	screen   *screen
	cluster  *local.Cluster
	client   *client.Client
	tally    *tally
	receiver string // URL
	probes   probes
	start    time.Time
}

// Run plays the demo, prints its verdict and returns it. The error explains why there is no verdict.
func Run(ctx context.Context, cfg Config) (*Verdict, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	dir, remove, err := dataDir(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	defer remove()
	r := &run{cfg: cfg, screen: &screen{out: cfg.Out, live: cfg.Live}, start: time.Now()}
	defer r.screen.clear()
	if err := r.startNodes(ctx, dir); err != nil {
		return nil, err
	}
	defer r.cluster.Stop()
	stop, err := r.listen(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	verdict, err := r.play(ctx)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	if cfg.Stay {
		r.stay(ctx)
	}
	return verdict, nil
}

// dataDir returns the folder to use. remove deletes the folder if it is a temporary one.
func dataDir(asked string) (dir string, remove func(), err error) {
	if asked != "" {
		return asked, func() {}, nil
	}
	dir, err = os.MkdirTemp("", "belfry-demo-")
	return dir, func() { _ = os.RemoveAll(dir) }, err // leftovers may stay in a temporary folder
}

func (r *run) startNodes(ctx context.Context, dir string) error {
	r.screen.say("starting %d nodes in %s", nodes, dir)
	var err error
	r.cluster, err = local.Start(ctx, local.Config{Nodes: nodes, DataDir: dir, Binary: r.cfg.Binary, Out: r.screen})
	if err != nil {
		return err
	}
	r.client, err = client.New(client.Config{Addrs: r.cluster.URLs()})
	if err != nil {
		r.cluster.Stop()
		return err
	}
	return nil
}

// listen starts the receiver and makes the tally of its arrivals. stop closes the receiver.
func (r *run) listen(ctx context.Context) (stop func(), err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r.receiver = "http://" + l.Addr().String() + "/demo"
	r.tally = newTally("demo-"+rand.Text()[:8]+"-", r.cfg.Tasks, r.showStranger)
	server := &http.Server{Handler: receiver.Handler(r.tally.arrive), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	return func() {
		_ = server.Close() // open requests need no answer any more
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			r.screen.say("the receiver failed: %v", err)
		}
	}, nil
}

// play runs the demo from the first schedule to the verdict.
func (r *run) play(ctx context.Context) (*Verdict, error) {
	view, err := r.awaitLeaders(ctx)
	if err != nil {
		return nil, err
	}
	if r.probes, err = placeProbes(ctx, r.client, r.tally.prefix+"probe-", len(view.Shards)); err != nil {
		return nil, fmt.Errorf("writing to every shard: %w", err)
	}
	if err := r.schedule(ctx); err != nil {
		return nil, err
	}
	progress, stop := context.WithCancel(ctx)
	shown := make(chan struct{})
	go func() { defer close(shown); r.showProgress(progress) }()
	failover, err := r.breakAndMend(ctx)
	if err == nil {
		err = r.awaitDeliveries(ctx)
	}
	stop()
	<-shown
	r.screen.clear()
	if err != nil {
		return nil, err
	}
	verdict := judge(r.tally.snapshot(), failover)
	if err := r.probes.cancel(ctx, r.client); err != nil {
		return nil, fmt.Errorf("after the run: %w", err)
	}
	return verdict, verdict.write(r.cfg.Out)
}

const leadersPoll = 50 * time.Millisecond

// awaitLeaders returns the cluster once every shard has a leader.
func (r *run) awaitLeaders(ctx context.Context) (*client.Cluster, error) {
	leaderless := func(shard client.Shard) bool { return shard.Leader == "" }
	for {
		view, err := r.client.Cluster(ctx)
		if err != nil {
			return nil, err
		}
		if len(view.Shards) > 0 && !slices.ContainsFunc(view.Shards, leaderless) {
			return view, nil
		}
		if !wait.For(ctx, leadersPoll) {
			return nil, ctx.Err()
		}
	}
}

// headStart returns the time between the first schedule and the first due task. All tasks are scheduled in that time,
// even on a small machine.
func (r *run) headStart() time.Duration {
	return 2*time.Second + time.Duration(r.cfg.Tasks)*time.Second/20_000
}

func (r *run) schedule(ctx context.Context) error {
	r.tally.plan(time.Now().Add(r.headStart()), r.cfg.Spread)
	began := time.Now()
	tasks := func(yield func(client.Task) bool) {
		for i := range r.cfg.Tasks {
			if !yield(r.tally.task(i, r.receiver)) {
				return
			}
		}
	}
	i := 0
	for result := range r.client.ScheduleMany(ctx, tasks) {
		if result.Err != nil {
			return result.Err
		}
		r.tally.acknowledge(i)
		i++
	}
	r.screen.say("scheduled %d tasks in %v, due over the next %v",
		i, time.Since(began).Round(time.Millisecond), r.cfg.Spread)
	return nil
}

// showStranger prints a task that this demo did not schedule, usually one of a user during --stay.
func (r *run) showStranger(a receiver.Arrival) {
	r.screen.say("%s arrived, %s late: %.200q", a.TaskID, ms(a.Lateness()), a.Body)
}

// stay keeps everything running until the context ends.
func (r *run) stay(ctx context.Context) {
	r.screen.say("")
	r.screen.say("the cluster stays up until Ctrl-C:")
	for _, n := range r.cluster.Nodes() {
		r.screen.say("  %s  http://%s  pid %d", n.Name, n.HTTPAddr, n.PID)
	}
	base := r.cluster.URLs()[0]
	r.screen.say("try:")
	r.screen.say(`  curl -X PUT --json '{"delay":"5s","payload":{"hello":"world"},"target":{"url":"%s"}}' \`, r.receiver)
	r.screen.say("    %s/v1/tasks/hello", base)
	r.screen.say("  curl %s/v1/tasks/hello", base)
	r.screen.say("  curl -X DELETE %s/v1/tasks/hello", base)
	r.screen.say("  curl %s/v1/cluster", base)
	<-ctx.Done()
}
