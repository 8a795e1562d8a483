package fsm

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// benchmarkTasks returns the number of tasks of a benchmark, a million by default: see benchTasks.
func benchmarkTasks(b *testing.B) int {
	text := os.Getenv(benchTasks)
	if text == "" {
		return 1_000_000
	}
	n, err := strconv.Atoi(text)
	assert.NoError(b, err, "%s", benchTasks)
	return n
}

// benchLabelled is benchSchedule with two labels: one that a quarter of all tasks have, and one that a hundred have.
func benchLabelled(i, n int) *fsmpb.Command {
	c := benchSchedule(i)
	c.GetSchedule().Spec.Labels = []*fsmpb.Label{
		{Name: "tier", Value: fmt.Sprint("tier-", i%4)}, {Name: "customer", Value: fmt.Sprint("customer-", i%(n/100))},
	}
	return c
}

// benchUnique is benchSchedule with a label that no other task has.
func benchUnique(i int) *fsmpb.Command {
	c := benchSchedule(i)
	c.GetSchedule().Spec.Labels = []*fsmpb.Label{{Name: "order", Value: fmt.Sprint("order-", i)}}
	return c
}

// BenchmarkLabels reports the memory of tasks with labels, as BenchmarkMemory does. It then lists the hundred tasks of
// one customer, and tasks of one tier, in at most 100 pages of 100.
func BenchmarkLabels(b *testing.B) {
	n := benchmarkTasks(b)
	b.Run("none", func(b *testing.B) { benchLabels(b, n, benchSchedule) })
	b.Run("two", func(b *testing.B) {
		m := benchLabels(b, n, func(i int) *fsmpb.Command { return benchLabelled(i, n) })
		benchList(b, m, labelled("customer", "customer-77"), "rare")
		benchList(b, m, labelled("tier", "tier-1"), "common")
	})
	b.Run("unique", func(b *testing.B) { benchLabels(b, n, benchUnique) })
}

func benchLabels(b *testing.B, n int, schedule func(i int) *fsmpb.Command) *Machine {
	before := liveHeap()
	m := New(0)
	began := time.Now()
	for i := 0; i < n; i += 1000 {
		for _, data := range benchEntries(1000, func(j int) *fsmpb.Command { return schedule(i + j) }) {
			benchApply(b, m, data)
		}
	}
	b.ReportMetric(float64(time.Since(began).Nanoseconds())/float64(n), "ns/schedule") // with the making of the entries
	b.ReportMetric(float64(liveHeap()-before)/float64(n), "bytes/task")
	b.ReportMetric(float64(m.Counts().Bytes)/float64(n), "counted-bytes/task")
	began = time.Now()
	runtime.GC()
	b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "ms/gc")
	return m
}

func labelled(name, value string) *fsmpb.ListQuery {
	return &fsmpb.ListQuery{Labels: []*fsmpb.Label{{Name: name, Value: value}}}
}

// BenchmarkDueRanges lists the tasks that are due in some ranges of their two days, in at most 100 pages of 100: in one
// with about a hundred tasks, in one with the most that the index serves, and in half of the time.
func BenchmarkDueRanges(b *testing.B) {
	n := benchmarkTasks(b)
	m := benchLabels(b, n, benchSchedule)
	for name, part := range map[string]int{"100": 100, "8000": 8000, "half": n / 2} {
		from := int64(benchStart + benchSpan/2)
		to := from + int64(part)*benchSpan/int64(n)
		benchList(b, m, &fsmpb.ListQuery{DueAfterMs: from, DueBeforeMs: to}, name)
	}
}

// BenchmarkDueOrder lists pages of 100 tasks in due order, of 10,000 tasks and of benchmarkTasks: the next ones, those
// from the middle of their two days on, and those of a millisecond in which all are due.
func BenchmarkDueOrder(b *testing.B) {
	for _, n := range []int{10_000, benchmarkTasks(b)} {
		m := New(0)
		for _, data := range benchEntries(n, benchSchedule) {
			benchApply(b, m, data)
		}
		storm := New(0)
		for _, data := range benchEntries(n, func(i int) *fsmpb.Command {
			c := benchSchedule(i)
			c.GetSchedule().FireAtMs = benchStart + benchSpan
			return c
		}) {
			benchApply(b, storm, data)
		}
		for _, c := range []struct {
			name  string
			m     *Machine
			query *fsmpb.ListQuery
		}{
			{"next", m, &fsmpb.ListQuery{}},
			{"middle", m, &fsmpb.ListQuery{AfterDueMs: benchStart + benchSpan/2}},
			{"storm", storm, &fsmpb.ListQuery{AfterDueMs: benchStart + benchSpan, Slot: task.Slots / 2}},
		} {
			b.Run(fmt.Sprint("tasks=", n, "/", c.name), func(b *testing.B) {
				c.query.Order, c.query.Limit = fsmpb.ListOrder_LIST_ORDER_DUE, 100
				for b.Loop() {
					page := c.m.List(c.query, task.Slots)
					assert.MustEqual(b, len(page.Tasks), 100, "a page of N tasks")
				}
			})
		}
	}
}

// benchList reports the time of a whole list, of at most 100 pages, and of its longest page. It changes the query.
func benchList(b *testing.B, m *Machine, q *fsmpb.ListQuery, name string) {
	q.Limit = 100
	longest, found, began := time.Duration(0), 0, time.Now()
	for range 100 {
		pageBegan := time.Now()
		page := m.List(q, task.Slots)
		longest = max(longest, time.Since(pageBegan))
		found += len(page.Tasks)
		if q.Slot, q.AfterId = page.Slot, page.AfterId; !page.More {
			break
		}
	}
	b.ReportMetric(float64(time.Since(began).Microseconds()), "µs/"+name)
	b.ReportMetric(float64(longest.Microseconds()), "µs/page-"+name)
	b.ReportMetric(float64(found), "found-"+name)
}

// BenchmarkListLabelled measures a page of 100 of the tasks with one label, by how many of a million have it. The most
// work is for a label just below the border where the index knows the slots of the tasks.
func BenchmarkListLabelled(b *testing.B) {
	const n = 1_000_000
	for _, have := range []int{8, 100, 8192, 8193, n} {
		b.Run(fmt.Sprint(have), func(b *testing.B) {
			m := New(0)
			labels := []*fsmpb.Label{{Name: "some", Value: "have"}}
			for _, data := range benchEntries(n, func(i int) *fsmpb.Command {
				c := benchSchedule(i)
				if i%(n/have) == 0 && i/(n/have) < have {
					c.GetSchedule().Spec.Labels = labels
				}
				return c
			}) {
				benchApply(b, m, data)
			}
			for b.Loop() {
				m.List(&fsmpb.ListQuery{Labels: labels, Limit: 100}, task.Slots)
			}
		})
	}
}

// BenchmarkScheduleLabelled and BenchmarkDropLabelled measure one command, in entries of 64, with a million pending.
func BenchmarkScheduleLabelled(b *testing.B) {
	const n = 1_000_000
	m := New(0)
	for _, data := range benchEntries(n, func(i int) *fsmpb.Command { return benchLabelled(i, n) }) {
		benchApply(b, m, data)
	}
	entries := benchEntries(b.N, func(i int) *fsmpb.Command { return benchLabelled(n+i, n) })
	benchApplyAll(b, m, entries)
}

func BenchmarkDropLabelled(b *testing.B) {
	n := max(1_000_000, b.N)
	m := New(0)
	for _, data := range benchEntries(n, func(i int) *fsmpb.Command { return benchLabelled(i, n) }) {
		benchApply(b, m, data)
	}
	entries := benchEntries(b.N, func(i int) *fsmpb.Command {
		return &fsmpb.Command{Id: benchID(i), Op: &fsmpb.Command_Erase{Erase: &fsmpb.Erase{}}}
	})
	benchApplyAll(b, m, entries)
}

// BenchmarkOutlook counts the coming tasks among 200,000, which are in one queue or in 100,000 queues.
func BenchmarkOutlook(b *testing.B) {
	for _, queues := range []int{1, 100_000} {
		b.Run(fmt.Sprint("queues=", queues), func(b *testing.B) {
			m := New(0)
			for _, data := range benchEntries(200_000, func(i int) *fsmpb.Command {
				c := benchSchedule(i)
				c.GetSchedule().Spec.Queue = fmt.Sprint("q-", i%queues)
				return c
			}) {
				benchApply(b, m, data)
			}
			for b.Loop() {
				m.Outlook(benchStart)
			}
		})
	}
}
