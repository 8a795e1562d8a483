package main

import (
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// life is a namespace full of tasks, with the receipts, cursors and keys of its callers.
type life struct {
	*guarded
	c               *client.Client // of the namespace
	own             string         // file of a key of the namespace
	receipt, cursor string
}

// erased returns the number of tasks of a life: 100,000 in the long form.
func erased() int {
	if gated.Has(gated.Long) {
		return 100_000
	}
	return 30_000
}

// newLife fills the namespace shop with tasks in all states.
func newLife(g *guarded) *life {
	g.t.Helper()
	g.must(0, g.admin, "namespace put shop --max-pending 200000")
	l := &life{guarded: g, own: g.key("shop", g.must(0, g.admin, "key create shop --role admin --namespace shop"))}
	g.everywhere(l.own, "whoami", nil)
	l.c = g.client(l.own)
	if _, err := l.c.PutQueue(g.t.Context(), client.Queue{Name: "shop-held", Paused: true}); err != nil {
		g.t.Fatal(err)
	}
	for r := range l.c.ScheduleMany(g.t.Context(), l.tasks()) {
		if r.Err != nil {
			g.t.Fatal(r.Err)
		}
	}
	_, err := l.c.PutSchedule(g.t.Context(), client.Schedule{
		ID: "shop-hourly", Repeat: client.Repeat{Every: time.Hour}, Task: client.Task{Queue: "shop-later"}})
	assert.NoError(g.t, err)
	for i := range 200 {
		_, err := l.c.Cancel(g.t.Context(), fmt.Sprint("shop-", i*10))
		assert.NoError(g.t, err)
	}
	l.consume()
	resp, body, err := g.ask(g.t.Context(), g.text(l.own), 0, http.MethodGet, "/v1/tasks?limit=1", "")
	if err != nil || resp.StatusCode != http.StatusOK {
		g.t.Fatal(body, err)
	}
	_, l.cursor, _ = strings.Cut(body, `"next_cursor":"`)
	l.cursor = strings.TrimSuffix(strings.TrimSpace(l.cursor), `"}`)
	return l
}

// tasks are scheduled, ready in a paused queue, and due at once for consumers.
func (l *life) tasks() iter.Seq[client.Task] {
	return func(yield func(client.Task) bool) {
		for i := range erased() {
			t := client.Task{
				ID: fmt.Sprint("shop-", i), Queue: "shop-later", Delay: time.Hour, Payload: []byte(`"shop"`),
				Retry: &client.Retry{MaxAttempts: 1}, Labels: map[string]string{"shop": "shop"},
			}
			switch i % 10 {
			case 1, 2, 3:
				t.Queue, t.Delay = "shop-held", time.Millisecond
			case 4:
				t.Queue, t.Delay = "shop-work", time.Millisecond
			}
			if !yield(t) {
				return
			}
		}
	}
}

// consume leaves delivered and dead tasks, and leases.
func (l *life) consume() {
	l.t.Helper()
	var leased []client.Leased
	for len(leased) < 900 {
		demand := client.Demand{Max: 300, Wait: 20 * time.Second, Lease: 12 * time.Hour}
		more, err := l.c.Lease(l.t.Context(), "shop-work", demand)
		if err != nil || len(more) == 0 {
			l.t.Fatalf("%d leased: %v", len(leased), err)
		}
		leased = append(leased, more...)
	}
	var done client.Settlement
	for i, task := range leased[1:] {
		switch i % 3 {
		case 0:
			done.Ack = append(done.Ack, task.Receipt)
		case 1:
			done.Nack = append(done.Nack, client.Nack{Receipt: task.Receipt, Reason: "shop"})
		}
	}
	for _, r := range l.c.Settle(l.t.Context(), "shop-work", done) {
		if r.Err != nil {
			l.t.Fatal(r.Err)
		}
	}
	l.receipt = leased[0].Receipt
}

// TestDeletedNamespaceLeavesNothing deletes a namespace full of tasks while the leader of the control group, which
// drives the deletion, is killed again and again, and with it leaders of shards. Then nothing of the namespace is left,
// and its name begins a new life.
func TestDeletedNamespaceLeavesNothing(t *testing.T) {
	gated.Need(t, gated.Real)
	t.Parallel()
	g := newGuarded(t)
	g.must(0, g.admin, "task schedule kept --delay 1h --queue others")
	l := newLife(g)
	want := fmt.Sprint("pending tasks  ", erased()/1000-1) // thousands
	assert.Contains(t, g.must(1, g.admin, "namespace show shop"), want, "before")
	began := time.Now()
	g.must(1, g.admin, "namespace delete shop --yes")
	for range 3 {
		g.kill(g.controlLeader())
	}
	assert.Contains(t, g.must(2, g.admin, "namespace delete shop --yes --wait"), "done", "the deletion")
	t.Logf("%d tasks are gone %v after the call, beside three kills", erased(), time.Since(began).Round(time.Second))
	l.checkGone()
	l.checkReborn()
}

// checkGone looks for the namespace at every node.
func (l *life) checkGone() {
	l.t.Helper()
	for node := range l.urls {
		await(l.t, "the end of the namespace at every node", func() bool {
			return !strings.Contains(l.must(node, l.admin, "namespace list"), "shop")
		})
		if status := l.judge(node, l.text(l.own)); status != http.StatusUnauthorized {
			l.t.Errorf("node %d answers %d to the key of a deleted namespace", node, status)
		}
		for _, path := range []string{"/metrics", "/v1/tasks", "/v1/schedules", "/v1/queues", "/v1/keys", "/v1/doctor"} {
			resp, body, err := l.ask(l.t.Context(), l.text(l.admin), node, http.MethodGet, path, "")
			if err != nil || resp.StatusCode != http.StatusOK {
				l.t.Fatal(path, body, err)
			}
			for line := range strings.Lines(body) {
				if strings.Contains(line, "shop") {
					l.t.Errorf("%s of node %d shows %.200s", path, node, line)
				}
			}
		}
	}
}

// checkReborn makes the namespace again. What callers held of its former life is worth nothing.
func (l *life) checkReborn() {
	l.t.Helper()
	l.must(0, l.admin, "namespace put shop")
	own := l.key("again", l.must(0, l.admin, "key create again --role admin --namespace shop"))
	l.everywhere(own, "whoami", nil)
	for _, path := range []string{"/v1/tasks", "/v1/schedules", "/v1/queues"} {
		for node := range l.urls {
			_, body, err := l.ask(l.t.Context(), l.text(own), node, http.MethodGet, path, "")
			if err != nil || strings.Contains(body, "shop") {
				l.t.Errorf("%s of the new life at node %d: %s %v", path, node, body, err)
			}
		}
	}
	if out := l.must(1, l.admin, "namespace show shop"); !strings.Contains(out, "pending tasks  0") ||
		!strings.Contains(out, "bytes          0B") {
		l.t.Errorf("the new life:\n%s", out)
	}
	c := l.client(own)
	task := client.Task{ID: "shop-4", Queue: "shop-work"}
	if change, err := c.Schedule(l.t.Context(), task); err != nil || !change.Created {
		l.t.Fatalf("%+v, %v", change, err)
	}
	leased, err := c.Lease(l.t.Context(), "shop-work", client.Demand{Wait: 20 * time.Second})
	if err != nil || len(leased) != 1 {
		l.t.Fatalf("%+v, %v", leased, err)
	}
	// The contract answers a receipt of an earlier task of this id so. It ends no lease of the later one.
	settled := c.Settle(l.t.Context(), "shop-work", client.Settlement{Ack: []string{l.receipt}})
	if len(settled) != 1 || settled[0].Err == nil && !settled[0].Replaced {
		l.t.Errorf("a receipt of the former life: %+v", settled)
	}
	if got, err := c.Get(l.t.Context(), "shop-4"); err != nil || got.State != client.StateFiring {
		l.t.Errorf("after it: %+v, %v", got, err)
	}
	settled = c.Settle(l.t.Context(), "shop-work", client.Settlement{Ack: []string{leased[0].Receipt}})
	if len(settled) != 1 || settled[0].Err != nil || settled[0].Replaced {
		l.t.Errorf("a receipt of the new life: %+v", settled)
	}
	_, body, err := l.ask(l.t.Context(), l.text(own), 2, http.MethodGet, "/v1/tasks?limit=1000&cursor="+l.cursor, "")
	if err != nil || strings.Count(body, `"id":`) > 1 {
		l.t.Errorf("a cursor of the former life: %s %v", body, err)
	}
}
