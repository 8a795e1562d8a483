package queuemetrics

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// fake is a source at the instant of 100 s.
type fake struct {
	policies []string
	sizes    []task.QueueSize
	due      func() []uint64
	gone     string // deleted namespace
}

func (f *fake) Policies() (all []*fsmpb.QueuePolicy) {
	for _, name := range f.policies {
		all = append(all, &fsmpb.QueuePolicy{Namespace: "default", Queue: name})
	}
	return all
}

func (f *fake) Exists(namespace string) bool    { return namespace != f.gone }
func (f *fake) Sizes() iter.Seq[task.QueueSize] { return slices.Values(f.sizes) }
func (f *fake) Due() []uint64                   { return f.due() }
func (f *fake) Now() time.Time                  { return time.UnixMilli(100_000) }

func collector(bound int, policies []string, sizes ...task.QueueSize) *Collector {
	return New(bound, &fake{policies: policies, sizes: sizes})
}

func ready(queue string, n uint64, dueMs int64) task.QueueSize {
	return task.QueueSize{Namespace: "default", Queue: queue, Ready: n, OldestOverdueMs: dueMs}
}

// Shards are added up. A queue with a policy is shown even if it is empty. The age is that of the oldest task.
func TestShardsAreAddedUp(t *testing.T) {
	mails := task.QueueSize{Namespace: "default", Queue: "mails", Pending: 5, Ready: 1, InFlight: 2, Dead: 3,
		DueMinute: 2, DueHour: 4, OldestOverdueMs: 98_500}
	c := collector(10, []string{"empty"}, mails, ready("mails", 1, 90_000), task.QueueSize{Namespace: "default",
		Queue: "mails", Pending: 1, DueHour: 1})
	want := `
# HELP belfry_queue_dead Dead letters, in the shards led here.
# TYPE belfry_queue_dead gauge
belfry_queue_dead{namespace="default",queue="empty"} 0
belfry_queue_dead{namespace="default",queue="mails"} 3
# HELP belfry_queue_due_tasks Pending tasks that come due within the span of time, overdue ones included, in the shards led here.
# TYPE belfry_queue_due_tasks gauge
belfry_queue_due_tasks{namespace="default",queue="empty",within="1h"} 0
belfry_queue_due_tasks{namespace="default",queue="empty",within="1m"} 0
belfry_queue_due_tasks{namespace="default",queue="mails",within="1h"} 5
belfry_queue_due_tasks{namespace="default",queue="mails",within="1m"} 2
# HELP belfry_queue_in_flight Attempts and leases under way, in the shards led here.
# TYPE belfry_queue_in_flight gauge
belfry_queue_in_flight{namespace="default",queue="empty"} 0
belfry_queue_in_flight{namespace="default",queue="mails"} 2
# HELP belfry_queue_oldest_overdue_seconds How long ago the first of the ready tasks was due; 0 if none is ready.
# TYPE belfry_queue_oldest_overdue_seconds gauge
belfry_queue_oldest_overdue_seconds{namespace="default",queue="empty"} 0
belfry_queue_oldest_overdue_seconds{namespace="default",queue="mails"} 10
# HELP belfry_queue_pending Tasks that wait for their time or for their next attempt, in the shards led here.
# TYPE belfry_queue_pending gauge
belfry_queue_pending{namespace="default",queue="empty"} 0
belfry_queue_pending{namespace="default",queue="mails"} 6
# HELP belfry_queue_ready Tasks that are due and wait for an attempt or a consumer, in the shards led here.
# TYPE belfry_queue_ready gauge
belfry_queue_ready{namespace="default",queue="empty"} 0
belfry_queue_ready{namespace="default",queue="mails"} 2
`
	assert.Equal(t, testutil.CollectAndCompare(c, strings.NewReader(want)), nil)
}

// Queues of one name in two namespaces have series of their own, each with the namespace as a label.
func TestNamespacesAreApart(t *testing.T) {
	other := ready("mails", 2, 0)
	other.Namespace = "billing"
	c := collector(10, []string{"mails"}, ready("mails", 1, 0), other)
	want := `
# HELP belfry_queue_ready Tasks that are due and wait for an attempt or a consumer, in the shards led here.
# TYPE belfry_queue_ready gauge
belfry_queue_ready{namespace="billing",queue="mails"} 2
belfry_queue_ready{namespace="default",queue="mails"} 1
`
	assert.Equal(t, testutil.CollectAndCompare(c, strings.NewReader(want), "belfry_queue_ready"), nil)
}

// The series are bounded, however many queues callers make, and their sum is that of all tasks.
func TestSeriesAreBounded(t *testing.T) {
	const bound, queues = 10, 5000
	var sizes []task.QueueSize
	total := 0
	for i := range queues {
		sizes = append(sizes, ready(fmt.Sprint("q-", i), uint64(i+1), int64(50_000-i)))
		total += i + 1
	}
	shown := collector(bound, []string{"q-0", "q-7", "z"}, sizes...).choose()
	assert.MustEqual(t, len(shown), bound+1, "queues are shown")
	var names []string
	sum := 0
	for _, size := range shown {
		names, sum = append(names, size.Queue), sum+int(size.Ready)
	}
	want := []string{"q-0", "q-7", "z", "q-4999", "q-4998", "q-4997", "q-4996", "q-4995", "q-4994", "q-4993", Other}
	if !slices.Equal(names, want) {
		t.Errorf("%v are shown, not %v", names, want)
	}
	if sum != total || shown[bound].OldestOverdueMs != 50_000-4992 {
		t.Errorf("%d of %d tasks; the others' oldest was due at %d", sum, total, shown[bound].OldestOverdueMs)
	}
	if task.CheckName("queue", Other) == nil {
		t.Errorf("a queue can be named %s", Other)
	}
}

// With more policies than the bound, every node shows the same queues.
func TestPoliciesAreBoundedByName(t *testing.T) {
	c := collector(2, []string{"a", "b", "c"}, ready("c", 7, 1), ready("d", 9, 1))
	shown := c.choose()
	if len(shown) != 3 || shown[0].Queue != "a" || shown[1].Queue != "b" || shown[2].Ready != 16 {
		t.Errorf("%+v", shown)
	}
	assert.Equal(t, testutil.CollectAndCount(c), 3*len(gauges), "series")
}
