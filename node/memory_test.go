package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/internal/assert"
)

func TestPendingBytes(t *testing.T) {
	for _, c := range []struct {
		limit  int64
		shards int
		want   int64
	}{
		{64 << 20, 12, 1 << 20}, {768 << 20, 12, 8 << 20}, {64 << 30, 12, 16 << 20}, {1 << 30, 0, 16 << 20},
	} {
		if got := pendingBytes(c.limit, c.shards); got != c.want {
			t.Errorf("%d MiB, %d shards: %d, want %d", c.limit>>20, c.shards, got, c.want)
		}
	}
}

// A node with little memory takes tasks until its memory is used up. It then refuses tasks with the limit's name and
// carries out all other calls. It takes tasks again when some are done.
func TestMemoryIsUsedUp(t *testing.T) {
	simulate(t, func(t *testing.T) {
		before := debug.SetMemoryLimit(-1)
		t.Cleanup(func() {
			if after := debug.SetMemoryLimit(-1); after != before {
				t.Errorf("the limit is left at %d bytes, %d before", after, before)
			}
		})
		cfg := testConfig(t)
		cfg.Shards = 2
		var err error
		cfg.MemoryLimit, err = headroom.ParseLimit("128MiB")
		assert.NoError(t, err)
		n, _ := start(t, cfg)
		c, err := client.New(client.Config{Addrs: []string{n.HTTPAddr()}, MaxAttempts: 1, HTTPClient: plain(t, cfg)})
		assert.NoError(t, err)
		t.Cleanup(c.Close)
		f := filler{t: t, node: n, client: c, payload: json.RawMessage(`"` + strings.Repeat("x", 200<<10) + `"`)}

		refusal := f.untilRefused()
		if refusal.Status != http.StatusTooManyRequests || refusal.Limit != "128MiB" || refusal.RetryAfter == 0 {
			t.Errorf("refused with %+v", refusal)
		}
		if f.n < 50 {
			t.Errorf("only %d tasks of 200 KiB were taken", f.n)
		}
		f.mustBeFull(true)
		if _, err := c.Cancel(t.Context(), "task-0"); err != nil {
			t.Errorf("cancel: %v", err)
		}
		if _, err := c.Touch(t.Context(), "task-1", client.Touch{Delay: time.Hour}); err != nil {
			t.Errorf("touch: %v", err)
		}
		if task, err := c.Get(t.Context(), "task-2"); err != nil || task.ID != "task-2" {
			t.Errorf("get: %v, %v", task, err)
		}
		f.consumeUntilTaken()
		f.mustBeFull(false)
	})
}

// filler fills a node with tasks for consumers.
type filler struct {
	t       *testing.T
	node    *Node
	client  *client.Client
	payload json.RawMessage
	n       int // number of tasks taken
}

func (f *filler) schedule() error {
	<-time.After(50 * time.Millisecond) // the node looks at its memory now and then
	_, err := f.client.Schedule(f.t.Context(), client.Task{
		ID: fmt.Sprintf("task-%d", f.n), Queue: "q", Delay: time.Millisecond, Payload: f.payload,
	})
	if err == nil {
		f.n++
	}
	return err
}

func (f *filler) untilRefused() *client.Error {
	f.t.Helper()
	for range 2000 {
		err := f.schedule()
		var refusal *client.Error
		switch {
		case err == nil:
		case errors.As(err, &refusal):
			return refusal
		default:
			f.t.Fatal(err)
		}
	}
	f.t.Fatalf("%d tasks were taken", f.n)
	return nil
}

// consumeUntilTaken consumes tasks until the node takes one more.
func (f *filler) consumeUntilTaken() {
	f.t.Helper()
	for range 200 {
		tasks, err := f.client.Lease(f.t.Context(), "q", client.Demand{Max: 10, Wait: time.Second})
		assert.NoError(f.t, err)
		var done client.Settlement
		for _, task := range tasks {
			done.Ack = append(done.Ack, task.Receipt)
		}
		for _, s := range f.client.Settle(f.t.Context(), "q", done) {
			if s.Err != nil {
				f.t.Fatal(s.Err)
			}
		}
		if f.schedule() == nil {
			return
		}
	}
	f.t.Fatal("no task is taken though many were done")
}

// mustBeFull checks the metrics and the cluster's view for a full or a free memory.
func (f *filler) mustBeFull(want bool) {
	f.t.Helper()
	_, text := request(f.t, plain(f.t, f.node.cfg), "GET", "http://"+f.node.HTTPAddr()+"/metrics")
	gauge := "belfry_memory_full 0"
	if want {
		gauge = "belfry_memory_full 1"
	}
	for _, line := range []string{gauge, "belfry_memory_limit_bytes 1.34217728e+08"} {
		assert.Contains(f.t, text, line+"\n", "the metrics lack %q", line)
	}
	view, err := f.client.Cluster(f.t.Context())
	if err != nil || len(view.Nodes) != 1 || view.Nodes[0].MemoryFull != want {
		f.t.Errorf("the cluster is shown as %+v, %v", view, err)
	}
}
