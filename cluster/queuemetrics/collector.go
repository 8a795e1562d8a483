// Package queuemetrics makes the metrics of queues for Prometheus: the task counts of each queue (Collector), how late
// its attempts begin (Lateness), and the tasks of all queues that come due soon (Due). The number of series and the
// time of a scrape are bounded. The counts are of these queues:
//
//	queues                       series
//	the first with a policy      their own, in the order of their names
//	the largest others           their own, up to the bound
//	all the rest                 one, with the queue label "_other", which no queue can be named
//
// A node counts the shards that it leads, so that a sum over all nodes counts every task once. Every node chooses the
// same queues with a policy. It chooses the others by their tasks in the shards that it leads. So if there are more
// queues than the bound, a queue without a policy may be part of "_other" on some nodes.
//
// Counting takes longer the more queues there are, about 3 µs for each, and does not depend on the number of tasks.
// Bounded keeps a scrape from waiting for it.
//
// # Why not otherwise
//
// Not a series for each queue, since any caller can make queues. Not questions to the other nodes, since a page of
// metrics must come also when they are silent.
package queuemetrics

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// DefaultBound and MaxBound are the default and the greatest number of queues with series of their own.
const (
	DefaultBound = 100
	MaxBound     = 10_000
)

// Other is the queue label of all queues without series of their own. Names of queues begin with a letter or a digit.
const Other = "_other"

// Source has the queues of the cluster, and the tasks in the shards led here.
type Source interface {
	// Policies returns the policies of the queues, sorted by namespace and name.
	Policies() []*fsmpb.QueuePolicy
	// Exists reports false for a deleted namespace.
	Exists(namespace string) bool
	// Sizes yields the sizes of the queues; it may yield a queue once for each shard.
	Sizes() iter.Seq[task.QueueSize]
	// Due returns the numbers of tasks that come due within each of the spans of an fsmpb.Outlook, and fewer numbers if
	// no shard is led here.
	Due() []uint64
	// Now returns the time of the shards.
	Now() time.Time
}

// Collector is a prometheus.Collector that counts on each Collect. It is safe for concurrent use.
type Collector struct {
	bound  int // queues with series of their own
	source Source
}

// New returns a Collector that gives this number of queues series of their own.
func New(bound int, source Source) *Collector { return &Collector{bound, source} }

// gauge is one metric of each queue.
type gauge struct {
	desc   *prometheus.Desc
	read   func(s task.QueueSize, nowMs int64) float64
	labels []string // values of the labels after namespace and queue
}

var dueInQueue = desc("due_tasks",
	"Pending tasks that come due within the span of time, overdue ones included, in the shards led here.", "within")

var gauges = []gauge{
	{desc: desc("pending", "Tasks that wait for their time or for their next attempt, in the shards led here."),
		read: func(s task.QueueSize, _ int64) float64 { return float64(s.Pending) }},
	{desc: desc("ready", "Tasks that are due and wait for an attempt or a consumer, in the shards led here."),
		read: func(s task.QueueSize, _ int64) float64 { return float64(s.Ready) }},
	{desc: desc("in_flight", "Attempts and leases under way, in the shards led here."),
		read: func(s task.QueueSize, _ int64) float64 { return float64(s.InFlight) }},
	{desc: desc("dead", "Dead letters, in the shards led here."),
		read: func(s task.QueueSize, _ int64) float64 { return float64(s.Dead) }},
	{desc: dueInQueue, labels: []string{"1m"},
		read: func(s task.QueueSize, _ int64) float64 { return float64(s.DueMinute) }},
	{desc: dueInQueue, labels: []string{"1h"},
		read: func(s task.QueueSize, _ int64) float64 { return float64(s.DueHour) }},
	{desc: desc("oldest_overdue_seconds", "How long ago the first of the ready tasks was due; 0 if none is ready."),
		read: func(s task.QueueSize, nowMs int64) float64 {
			if s.OldestOverdueMs == 0 {
				return 0
			}
			return float64(max(nowMs-s.OldestOverdueMs, 0)) / 1000
		}},
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("belfry_queue_"+name, help, append([]string{"namespace", "queue"}, labels...), nil)
}

// Describe sends the descriptions of all metrics.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, g := range gauges {
		out <- g.desc
	}
}

// Collect counts the tasks and sends the metrics.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	nowMs := c.source.Now().UnixMilli()
	for _, size := range c.choose() {
		for _, g := range gauges {
			labels := append([]string{size.Namespace, size.Queue}, g.labels...)
			out <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.read(size, nowMs), labels...)
		}
	}
}

type key struct{ namespace, queue string }

// choose returns the queues with series of their own, and the sum of the others if there are any.
func (c *Collector) choose() []task.QueueSize {
	sums := make(map[key]*task.QueueSize)
	for size := range c.source.Sizes() {
		k := key{size.Namespace, size.Queue}
		if sums[k] == nil {
			sums[k] = &task.QueueSize{Namespace: size.Namespace, Queue: size.Queue}
		}
		sums[k].Add(size)
	}
	var shown []task.QueueSize
	for _, p := range c.source.Policies() {
		if len(shown) == c.bound {
			break
		}
		size := task.QueueSize{Namespace: p.Namespace, Queue: p.Queue} // shown even if it is empty
		k := key{p.Namespace, p.Queue}
		if sum := sums[k]; sum != nil {
			size.Add(*sum)
			delete(sums, k)
		}
		shown = append(shown, size)
	}
	left := make([]task.QueueSize, 0, len(sums))
	for _, sum := range sums {
		left = append(left, *sum)
	}
	slices.SortFunc(left, byLive)
	own := min(c.bound-len(shown), len(left))
	shown = append(shown, left[:own]...)
	if own == len(left) {
		return shown
	}
	other := task.QueueSize{Queue: Other}
	for _, size := range left[own:] {
		other.Add(size)
	}
	return append(shown, other)
}

// byLive orders the largest queue first, and queues of one size by their names.
func byLive(a, b task.QueueSize) int {
	return cmp.Or(cmp.Compare(b.Live(), a.Live()), strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Queue, b.Queue))
}
