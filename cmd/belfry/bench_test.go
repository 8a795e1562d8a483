package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/bench"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// benchmark runs belfry bench --json and returns its report.
func benchmark(ctx context.Context, t *testing.T, args ...string) (*bench.Report, error) {
	t.Helper()
	root := newRoot()
	var out strings.Builder
	root.SetOut(&out)
	root.SetErr(io.Discard)
	root.SetIn(strings.NewReader(""))
	root.SetArgs(append([]string{"bench", "--json"}, args...))
	err := root.ExecuteContext(ctx)
	report := new(bench.Report)
	if decodeErr := json.Unmarshal([]byte(out.String()), report); decodeErr != nil {
		t.Fatalf("%v: %v: %q", err, decodeErr, out.String())
	}
	return report, err
}

// nothingLeft checks that a measurement has left neither an unfinished task nor a policy.
func nothingLeft(t *testing.T, c *client.Client, queue string) {
	t.Helper()
	q, err := c.Queue(t.Context(), queue)
	if errors.Is(err, client.ErrNotFound) {
		return
	}
	assert.NoError(t, err)
	n := q.Counts
	if n.Unfinished()+n.Dead > 0 || q.KeepDone != 0 || q.Target != nil {
		t.Errorf("left: %+v, %+v", q, n)
	}
}

// A real node is measured with tasks that come by lease and by webhook: all arrive, none early. A task that a busy
// machine holds up for more than ten seconds counts as lost.
func TestBench(t *testing.T) {
	gated.Need(t, gated.Timed)
	addr, c := onNode(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err)
	hook := l.Addr().String()
	assert.NoError(t, l.Close())
	for by, args := range map[string][]string{
		"lease":   {"--rate", "100", "--for", "500ms"},
		"webhook": {"--rate", "0", "--tasks", "50", "--clients", "5", "--webhook", "http://" + hook + "/", "--listen", hook},
	} {
		report, err := benchmark(t.Context(), t, append(args, "--addr", addr, "--yes")...)
		assert.Equal(t, err, nil, "%s", by)
		d := report.Delivery
		if report.By != by || report.Schedule.Done != 50 || d.Received != 45 || d.Lost+d.Early+d.AfterCancel != 0 ||
			report.Schedule.LatencyMs.P50 <= 0 || d.LatenessMs.Max <= 0 || report.Clock.ErrorMs < 1 || report.Interrupted {
			t.Errorf("%s: %+v", by, report)
		}
		nothingLeft(t, c, report.Queue)
	}
}

// An interrupted measurement reports its results so far, removes its tasks and queue, and counts nothing as lost.
func TestBenchInterrupted(t *testing.T) {
	addr, c := onNode(t)
	queue := unique("mine")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		filter := client.EventFilter{Queue: queue, Types: []string{"delivered"}, Since: time.Now().Add(-time.Minute)}
		for e, err := range c.Events(ctx, filter) {
			if err == nil && e.Type == "delivered" {
				cancel() // as the first ctrl-c does
			}
		}
	}()
	report, err := benchmark(ctx, t, "--rate", "50", "--for", "1h", "--queue", queue, "--addr", addr, "--yes")
	if !errors.Is(err, context.Canceled) || !report.Interrupted || report.Delivery.Lost != 0 || report.Removed == 0 ||
		report.Delivery.Received == 0 {
		t.Errorf("%v: %+v", err, report)
	}
	nothingLeft(t, c, queue)
}

// A measurement does not touch a queue that is there already, and asks before it disturbs a cluster with tasks.
func TestBenchRefuses(t *testing.T) {
	addr, c := onNode(t)
	queue := unique("orders")
	_, err := c.Schedule(t.Context(), client.Task{ID: queue, Queue: queue, Delay: time.Hour})
	assert.NoError(t, err)
	for args, want := range map[string]string{
		"--yes --queue " + queue:            "queue " + queue + ": the queue has a policy or tasks already",
		"--tasks 5":                         ", which share the load: give --yes",
		"--rate 0":                          "--rate 0 needs --tasks",
		"--tasks 5 --for 1s":                "--tasks and --for exclude each other",
		"--listen :1":                       "--listen is for --webhook",
		"--yes --tasks 5 --webhook ftp://a": `--webhook "ftp://a" is not an http URL`,
		"--tasks 5 --payload -1":            "the payload is not within",
	} {
		out, code := belfry(t, append(strings.Fields("bench "+args), "--addr", addr)...)
		if code == 0 || !strings.Contains(out, want) {
			t.Errorf("bench %s: %d, want %q:\n%s", args, code, want, out)
		}
	}
	if task, err := c.Get(t.Context(), queue); err != nil || task.State != client.StateScheduled {
		t.Errorf("%+v, %v", task, err)
	}
}
