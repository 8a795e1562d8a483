package node

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
)

// The metrics page has the sizes of each queue, and the build of the node.
func TestMetricsPage(t *testing.T) {
	cfg := testConfig(t)
	cfg.QueueMetrics = 2
	n, c := start(t, cfg)
	addr := n.HTTPAddr()
	ctx := t.Context()
	for _, q := range []client.Queue{{Name: "mails", Retry: &client.Retry{MaxAttempts: 1}}, {Name: "still", Paused: true}} {
		if _, err := c.PutQueue(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	overdue := time.Now().Add(-time.Hour)
	for i := range 10 {
		for _, task := range []client.Task{
			{ID: fmt.Sprint("later-", i), Queue: "mails", Delay: time.Hour},
			{ID: fmt.Sprint("still-", i), Queue: "still", FireAt: overdue},
			{ID: fmt.Sprint("one-", i), Queue: fmt.Sprint("of-", i), Delay: time.Hour},
		} {
			if _, err := c.Schedule(ctx, task); err != nil {
				t.Fatal(err)
			}
		}
	}
	bury(t, c)
	text := metricsWith(t, addr, `belfry_queue_ready{namespace="default",queue="still"} 10`)
	for _, want := range []string{
		`belfry_queue_pending{namespace="default",queue="mails"} 10`,
		`belfry_queue_ready{namespace="default",queue="mails"} 0`,
		`belfry_queue_in_flight{namespace="default",queue="mails"} 1`,
		`belfry_queue_dead{namespace="default",queue="mails"} 1`,
		`belfry_queue_oldest_overdue_seconds{namespace="default",queue="mails"} 0`,
		`belfry_queue_pending{namespace="",queue="_other"} 10`,
		fmt.Sprintf(`belfry_build_info{commit="unknown",goversion=%q,version="dev"} 1`, runtime.Version()),
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the page lacks %s", want)
		}
	}
	if series := strings.Count(text, "\nbelfry_queue_pending{"); series != 3 {
		t.Errorf("%d queues are on the page", series)
	}
	age := valueOf(t, text, `belfry_queue_oldest_overdue_seconds{namespace="default",queue="still"} `)
	if age < 3600 || age > 3660 {
		t.Errorf("the oldest task of still is %v s overdue", age)
	}
}

// bury makes one task of mails leased and another one a dead letter.
func bury(t *testing.T, c *client.Client) {
	t.Helper()
	for range 2 {
		if _, err := c.Schedule(t.Context(), client.Task{Queue: "mails"}); err != nil {
			t.Fatal(err)
		}
	}
	var leased []client.Leased
	for len(leased) < 2 {
		more, err := c.Lease(t.Context(), "mails", client.Demand{Max: 2, Wait: 20 * time.Second})
		if err != nil || len(more) == 0 {
			t.Fatalf("%d leased, %v", len(leased), err)
		}
		leased = append(leased, more...)
	}
	for _, r := range c.Settle(t.Context(), "mails", client.Settlement{Nack: []client.Nack{{Receipt: leased[0].Receipt}}}) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// metricsWith reads the page until the page has a line.
func metricsWith(t *testing.T, addr, line string) string {
	t.Helper()
	end := time.Now().Add(20 * time.Second)
	for {
		_, text := request(t, "GET", "http://"+addr+"/metrics")
		if strings.Contains(text, line+"\n") {
			return text
		}
		if time.Now().After(end) {
			t.Fatalf("the page lacks %s:\n%s", line, text)
		}
	}
}

func valueOf(t *testing.T, page, prefix string) (value float64) {
	t.Helper()
	_, after, _ := strings.Cut(page, prefix)
	if _, err := fmt.Sscan(after, &value); err != nil {
		t.Fatalf("%s: %v", prefix, err)
	}
	return value
}
