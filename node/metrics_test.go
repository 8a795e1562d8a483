package node

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
)

// The metrics page has the sizes of each queue, and the build of the node.
func TestMetricsPage(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		cfg := testConfig(t)
		cfg.QueueMetrics = 2
		n, c := start(t, cfg)
		callers, url := plain(t, cfg), "http://"+n.HTTPAddr()+"/metrics"
		ctx := t.Context()
		for _, q := range []client.Queue{{Name: "mails", Retry: &client.Retry{MaxAttempts: 1}}, {Name: "still", Paused: true}} {
			_, err := c.PutQueue(ctx, q)
			assert.NoError(t, err)
		}
		overdue := time.Now().Add(-time.Hour)
		for i := range 10 {
			for _, task := range []client.Task{
				{ID: fmt.Sprint("later-", i), Queue: "mails", Delay: 50 * time.Minute},
				{ID: fmt.Sprint("still-", i), Queue: "still", FireAt: overdue},
				{ID: fmt.Sprint("one-", i), Queue: fmt.Sprint("of-", i), Delay: 50 * time.Minute},
			} {
				_, err := c.Schedule(ctx, task)
				assert.NoError(t, err)
			}
		}
		bury(t, c)
		text := metricsWith(t, callers, url, `belfry_queue_ready{namespace="default",queue="still"} 10`)
		for _, want := range []string{
			`belfry_queue_pending{namespace="default",queue="mails"} 10`,
			`belfry_queue_ready{namespace="default",queue="mails"} 0`,
			`belfry_queue_in_flight{namespace="default",queue="mails"} 1`,
			`belfry_queue_dead{namespace="default",queue="mails"} 1`,
			`belfry_queue_oldest_overdue_seconds{namespace="default",queue="mails"} 0`,
			`belfry_queue_pending{namespace="",queue="_other"} 10`,
			`belfry_due_tasks{within="10m"} 0`,
			`belfry_due_tasks{within="1h"} 20`,
			`belfry_queue_due_tasks{namespace="default",queue="mails",within="1h"} 10`,
			`belfry_queue_due_tasks{namespace="",queue="_other",within="1h"} 10`,
			`belfry_queue_start_lateness_seconds_count{namespace="default",queue="mails"} 2`,
			fmt.Sprintf(`belfry_build_info{commit="unknown",goversion=%q,version="dev"} 1`, runtime.Version()),
		} {
			assert.Contains(t, text, want+"\n", "the page lacks %s", want)
		}
		lintMetrics(t, text)
		checkHistograms(t, callers, url)
		assert.Equal(t, strings.Count(text, "\nbelfry_queue_pending{"), 3, "queues are on the page")
		age := valueOf(t, text, `belfry_queue_oldest_overdue_seconds{namespace="default",queue="still"} `)
		if age < 3600 || age > 3660 {
			t.Errorf("the oldest task of still is %v s overdue", age)
		}
	})
}

// lintMetrics holds a page of metrics against the rules of `promtool check metrics`.
func lintMetrics(t *testing.T, page string) {
	t.Helper()
	problems, err := promlint.New(strings.NewReader(page)).Lint()
	assert.NoError(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// checkHistograms asks a node for its metrics as a scraper of native histograms does. Each histogram must have native
// and classic buckets.
func checkHistograms(t *testing.T, callers *http.Client, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, http.NoBody)
	assert.NoError(t, err)
	req.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeProtoDelim)))
	resp, err := callers.Do(req)
	assert.NoError(t, err)
	defer resp.Body.Close()
	families := expfmt.NewDecoder(resp.Body, expfmt.ResponseFormat(resp.Header))
	histograms := 0
	for {
		var f dto.MetricFamily
		if err := families.Decode(&f); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if f.GetType() != dto.MetricType_HISTOGRAM || !strings.HasPrefix(f.GetName(), "belfry_") {
			continue
		}
		histograms++
		for _, m := range f.Metric {
			if m.Histogram.Schema == nil || len(m.Histogram.Bucket) == 0 {
				t.Errorf("%s lacks native or classic buckets: %v", f.GetName(), m)
			}
		}
	}
	if histograms < 5 {
		t.Errorf("%d histograms", histograms)
	}
}

// bury makes one task of mails leased and another one a dead letter.
func bury(t *testing.T, c *client.Client) {
	t.Helper()
	for range 2 {
		_, err := c.Schedule(t.Context(), client.Task{Queue: "mails"})
		assert.NoError(t, err)
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
func metricsWith(t *testing.T, callers *http.Client, url, line string) (page string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("the page lacks %s:\n%s", line, page)
		}
	}()
	until(t, func() bool {
		_, page = request(t, callers, "GET", url)
		return strings.Contains(page, line+"\n")
	})
	return page
}

func valueOf(t *testing.T, page, prefix string) (value float64) {
	t.Helper()
	_, after, _ := strings.Cut(page, prefix)
	_, err := fmt.Sscan(after, &value)
	assert.NoError(t, err, "%s", prefix)
	return value
}
