// Parts measures the processor time of each part of a task's life: on the leader, on a follower, and on the node that
// takes the call. `belfry plan` computes plans from these figures (costs.go), under the names that Parts prints.
//
// Parts runs three nodes with one shard, as processes. It reads each node's processor time from /proc before and after
// a step, so it needs Linux. The steps divide the work differently, and a few linear equations separate the parts:
//   - A single caller makes one log entry for every task; a batch makes few entries.
//   - A call through a follower takes the HTTP work off the leader.
//
// Other load on the machine hardly affects processor time, but caches do: measure on a quiet machine.
//
// With --memory, Parts measures the memory of a replica without tasks instead, from clusters with one shard and with
// many.
//
//	go build -o bin/ ./cmd/belfry && go run -C bench ./cmd/parts --belfry ../bin/belfry
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/belfryhq/belfry/client"
)

func main() {
	var cfg config
	flag.StringVar(&cfg.binary, "belfry", "./belfry", "the program that is measured")
	flag.IntVar(&cfg.tasks, "tasks", 20000, "tasks in a step; a lone caller makes a tenth")
	flag.IntVar(&cfg.payload, "payload", 200, "bytes")
	flag.DurationVar(&cfg.idle, "idle", defaultIdle, "how long the idle nodes are watched")
	ofMemory := flag.Bool("memory", false, "measure memory instead")
	flag.Parse()
	measure := measure
	if *ofMemory {
		measure = memory
	}
	if err := measure(context.Background(), cfg); err != nil {
		fmt.Fprintln(os.Stderr, "parts:", err)
		os.Exit(1)
	}
}

type config struct {
	binary         string
	tasks, payload int
	idle           time.Duration
}

const (
	defaultIdle = 30 * time.Second
	ahead       = 20 * time.Second // time between scheduling and the common due instant
)

// perSecond is the processor time of idle nodes, in µs a second.
type perSecond struct{ leader, entry, follower float64 }

func measure(ctx context.Context, cfg config) (err error) {
	s, err := start(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	idle, err := s.idle(cfg.idle)
	if err != nil {
		return err
	}
	l := newLoad(cfg.payload)
	var batch, lone, single, passed spent
	for _, step := range []struct {
		name string
		into *spent
		do   func() (int, int, error)
	}{
		{"warming up", new(spent), func() (int, int, error) { return l.puts(ctx, s.entry, cfg.tasks/4, callers) }},
		{"batches, by the leader", &batch, func() (int, int, error) { return l.batches(ctx, s.leader, cfg.tasks) }},
		{"one caller, by the leader", &lone, func() (int, int, error) { return l.puts(ctx, s.leader, cfg.tasks/10, 1) }},
		{"64 callers, by the leader", &single, func() (int, int, error) { return l.puts(ctx, s.leader, cfg.tasks, callers) }},
		{"64 callers, by a follower", &passed, func() (int, int, error) { return l.puts(ctx, s.entry, cfg.tasks, callers) }},
	} {
		if *step.into, err = s.step(step.name, idle, step.do); err != nil {
			return err
		}
	}
	schedules(batch, lone, single, passed)
	entry := follow(batch, lone)
	if err := s.webhooks(ctx, cfg, l, idle, entry); err != nil {
		return err
	}
	return s.pulls(ctx, cfg, l, idle, entry)
}

func (s *stand) idle(d time.Duration) (perSecond, error) {
	before, err := s.used()
	if err != nil {
		return perSecond{}, err
	}
	<-time.After(d)
	after, err := s.used()
	seconds := after.at.Sub(before.at).Seconds()
	idle := perSecond{
		(after.leader - before.leader) / seconds, (after.entry - before.entry) / seconds,
		(after.follower - before.follower) / seconds,
	}
	fmt.Printf("%-28s µs a second: leader %.0f  entry %.0f  follower %.0f\n", "idle, one shard", idle.leader, idle.entry,
		idle.follower)
	return idle, err
}

// parts are the costs of a log entry and of a command in it.
type parts struct{ entry, command float64 }

// follow computes a follower's costs from a step with few large entries and a step with many entries of one command.
func follow(batch, lone spent) parts {
	entry, command := solve(batch.entries, batch.tasks, batch.follower, lone.entries, lone.tasks, lone.follower)
	return parts{entry, command}
}

// schedules computes and prints the parts of a schedule.
func schedules(batch, lone, single, passed spent) {
	f := follow(batch, lone)
	// The leader takes the calls itself. Its cost has three parts: an entry, a request and the rest of a task. The
	// first equation joins request and rest, because lone and single have one request for each task.
	entry, task := solve(lone.entries, lone.tasks, lone.leader, single.entries, single.tasks, single.leader)
	rest := (batch.leader - batch.entries*entry - batch.requests*task) / (batch.tasks - batch.requests)
	request := task - rest
	line := (passed.entry-passed.entries*f.entry-passed.tasks*f.command)/passed.tasks - request
	lead := (passed.leader - passed.entries*entry) / passed.tasks
	for _, p := range []struct {
		name  string
		value float64
	}{
		{"entry_lead_cpu", entry}, {"entry_follow_cpu", f.entry}, {"request_cpu", request}, {"line_cpu", line},
		{"schedule_lead_cpu", lead}, {"schedule_follow_cpu", f.command}, {"(taken by its leader)", rest},
	} {
		printCost(p.name, p.value)
	}
}

func printCost(name string, value float64) { fmt.Printf("    %-24s %8.1f µs\n", name, value) }

// solve returns the x and y of a*x + b*y = c, d*x + e*y = f.
func solve(a, b, c, d, e, f float64) (x, y float64) {
	det := a*e - b*d
	return (c*e - b*f) / det, (a*f - c*d) / det
}

// webhooks measures a burst of webhooks that are due at one instant.
func (s *stand) webhooks(ctx context.Context, cfg config, l *load, idle perSecond, f parts) error {
	url, done, stop, err := receive(ctx, cfg.tasks)
	if err != nil {
		return err
	}
	l.target, l.due = &client.Target{URL: url}, time.Now().Add(ahead)
	if _, _, err := l.batches(ctx, s.leader, cfg.tasks); err != nil {
		return errors.Join(err, stop())
	}
	<-time.After(time.Until(l.due) - time.Second)
	sp, err := s.step("webhooks", idle, func() (int, int, error) {
		select {
		case <-done:
			<-time.After(time.Second) // for the last settles
		case <-time.After(2 * time.Minute):
			return 0, 0, errors.New("not all webhooks came")
		}
		return cfg.tasks, 0, nil
	})
	if err == nil {
		printCost("webhook_cpu", sp.leader/sp.tasks)
		printCost("fire_follow_cpu", (sp.follower-sp.entries*f.entry)/sp.tasks)
	}
	return errors.Join(err, stop())
}

// pulls measures consumers that take tasks through a follower.
func (s *stand) pulls(ctx context.Context, cfg config, l *load, idle perSecond, f parts) error {
	l.target, l.queue, l.due = nil, "pulled", time.Now().Add(ahead)
	if _, _, err := l.batches(ctx, s.leader, cfg.tasks); err != nil {
		return err
	}
	<-time.After(time.Until(l.due) - time.Second)
	sp, err := s.step("pulled by a follower", idle, func() (int, int, error) { return l.consume(ctx, s.entry, cfg.tasks) })
	if err == nil {
		printCost("pull_lead_cpu", sp.leader/sp.tasks)
		printCost("pull_serve_cpu", (sp.entry-sp.follower)/sp.tasks)
		printCost("fire_follow_cpu", (sp.follower-sp.entries*f.entry)/sp.tasks)
	}
	return err
}
