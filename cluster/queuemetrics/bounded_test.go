package queuemetrics

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfryhq/belfry/internal/assert"
)

const dueText = `
# HELP belfry_due_tasks Tasks that wait for a time within the span from now, overdue ones included, in the shards led here.
# TYPE belfry_due_tasks gauge
`

func dueIs(t *testing.T, c prometheus.Collector, lines string) {
	t.Helper()
	want := ""
	if lines != "" {
		want = dueText + lines
	}
	assert.Equal(t, testutil.CollectAndCompare(c, strings.NewReader(want)), nil)
}

// A node that leads no shard shows that none of its tasks is due, so that a sum over nodes has all series.
func TestDueTasks(t *testing.T) {
	dueIs(t, Due(&fake{due: func() []uint64 { return []uint64{1, 20, 300, 4000, 50_000} }}), `
belfry_due_tasks{within="1s"} 1
belfry_due_tasks{within="10s"} 20
belfry_due_tasks{within="1m"} 300
belfry_due_tasks{within="10m"} 4000
belfry_due_tasks{within="1h"} 50000
`)
	dueIs(t, Due(&fake{due: func() []uint64 { return nil }}), `
belfry_due_tasks{within="1s"} 0
belfry_due_tasks{within="10s"} 0
belfry_due_tasks{within="1m"} 0
belfry_due_tasks{within="10m"} 0
belfry_due_tasks{within="1h"} 0
`)
}

// A scrape does not wait for a slow count: it shows the counts of the last time, and begins no second count.
func TestScrapeDoesNotWaitForASlowCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var counts, took atomic.Int64
		count := func() []uint64 {
			n := uint64(counts.Add(1))
			time.Sleep(time.Duration(took.Load()))
			return []uint64{n, n, n, n, n}
		}
		within := func(n string) string {
			return strings.ReplaceAll(`
belfry_due_tasks{within="1s"} N
belfry_due_tasks{within="10s"} N
belfry_due_tasks{within="1m"} N
belfry_due_tasks{within="10m"} N
belfry_due_tasks{within="1h"} N
`, "N", n)
		}
		c := Bounded(Due(&fake{due: count}), time.Second)
		took.Store(int64(2500 * time.Millisecond))
		dueIs(t, c, "") // the first count is under way
		dueIs(t, c, "")
		dueIs(t, c, within("1")) // it ends within the third scrape
		dueIs(t, c, within("1"))
		assert.Equal(t, counts.Load(), 2, "counts were begun")
		time.Sleep(3 * time.Second)
		took.Store(0)
		began := time.Now()
		dueIs(t, c, within("3"))
		if waited := time.Since(began); waited > 0 {
			t.Errorf("a scrape waited for %v after the end of a count", waited)
		}
	})
}
