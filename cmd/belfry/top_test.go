package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/top"
)

// Without a terminal, belfry top prints one page of a real node and ends. With --json --once it prints one value.
func TestTop(t *testing.T) {
	addr, c, _ := inNamespace(t)
	for _, task := range []client.Task{
		{ID: "a", Delay: 50 * time.Minute, Queue: "orders"}, {ID: "b", Delay: 30 * time.Minute},
	} {
		if _, err := c.Schedule(t.Context(), task); err != nil {
			t.Fatal(err)
		}
	}
	out, code := belfry(t, "top", "--addr", addr, "--json", "--once")
	var sum top.Summary
	if err := json.Unmarshal([]byte(out), &sum); err != nil || code != 0 {
		t.Fatalf("%d %v\n%s", code, err, out)
	}
	if *sum.Waiting != 2 || sum.DueWithin.Hour < 2 || len(sum.Nodes) != 1 || len(sum.Queues) != 2 || len(sum.Stale) != 0 {
		t.Errorf("%s", out)
	}
	out, code = belfry(t, "top", "--addr", addr)
	for _, want := range []string{
		fmt.Sprintf("waiting %d", *sum.InCluster), fmt.Sprintf("1m %d  1h %d", sum.DueWithin.Minute, sum.DueWithin.Hour),
		fmt.Sprintf("%d shards all with a leader", len(sum.Shards)), "\norders ",
	} {
		if code != 0 || !strings.Contains(strings.ReplaceAll(out, ",", ""), want) {
			t.Errorf("%d, want %q:\n%s", code, want, out)
		}
	}
	if out, code := belfry(t, "top", "--every", "1ms"); code != exitUsage || !strings.Contains(out, "--every: at least 100ms") {
		t.Errorf("%d %s", code, out)
	}
}

// A page needs an answer: without a node, the message has a remedy. The command tries for a second of simulated time,
// which does not pass while a port refuses the connection.
func TestTopWithoutANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, code := belfry(t, "top", "--addr", "127.0.0.1:1", "--timeout", "1s")
		if code != exitFailed || !strings.Contains(out, "connection refused") {
			t.Errorf("%d %s", code, out)
		}
	})
}
