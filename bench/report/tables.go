package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// cell is one figure of one subject over all rounds.
type cell struct {
	values  []float64 // of the rounds that have the figure, sorted
	cannot  string
	failed  []string // why the other rounds failed
	load    float64  // median of the load's share of the processor time of load and service; 0: unknown
	present bool     // some round ran the workload with the subject
}

// cell collects a figure over all rounds.
func (r *Run) cell(subject, workload, key string) cell {
	var c cell
	var loads []float64
	for _, m := range r.Measured {
		if m.Subject != subject || m.Workload != workload {
			continue
		}
		c.present = true
		if m.Cannot != "" {
			c.cannot = m.Cannot
		}
		if m.Failed != "" {
			c.failed = append(c.failed, fmt.Sprintf("round %d: %s", m.Round, m.Failed))
		}
		if value, ok := m.Values[key]; ok {
			c.values = append(c.values, value)
		}
		if share, ok := m.Usage.LoadShare(); ok {
			loads = append(loads, share)
		}
	}
	slices.Sort(c.values)
	slices.Sort(loads)
	c.load = median(loads)
	return c
}

// median returns the median of sorted values: the mean of the middle two of an even number, and 0 of none.
func median(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (c cell) known() bool     { return len(c.values) > 0 }
func (c cell) median() float64 { return median(c.values) }

// text formats the median, the spread if the rounds differ, the ratio to the reference, and the number of failed
// rounds.
func (c cell) text(unit string, reference cell) string {
	switch {
	case c.cannot != "":
		return "cannot"
	case !c.present:
		return "–"
	case !c.known() && len(c.failed) > 0:
		return "failed"
	case !c.known():
		return "none"
	}
	text := number(c.median(), unit)
	if low, high := number(c.values[0], unit), number(c.values[len(c.values)-1], unit); low != high {
		text += fmt.Sprintf(" (%s–%s)", low, high)
	}
	if reference.known() && reference.median() > 0 && c.median() > 0 {
		text += " ×" + ratio(c.median()/reference.median())
	}
	if len(c.failed) > 0 {
		text += fmt.Sprintf(", failed in %d", len(c.failed))
	}
	return text
}

// number formats a figure for its unit: large rates in thousands, and all else with three significant digits.
func number(value float64, unit string) string {
	switch {
	case unit == "/s" && value >= 9950:
		return digits(value/1000, 3) + "k"
	case unit == "" && value == math.Trunc(value):
		return fmt.Sprintf("%.0f", value)
	}
	return digits(value, 3)
}

func ratio(value float64) string { return digits(value, 2) }

// digits formats a value with n significant digits, at most four decimals and no exponent.
func digits(value float64, n int) string {
	if value == 0 {
		return "0"
	}
	decimals := max(0, n-1-int(math.Floor(math.Log10(math.Abs(value)))))
	text := fmt.Sprintf("%.*f", min(decimals, 4), value)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// column is one figure of one workload in a table.
type column struct {
	workload, key string
}

// table is a table of the report. A picture shows its first column if picture is set.
type table struct {
	title   string
	picture string
	columns []column
}

// alone has the workloads that measure Belfry alone, with the reason that the tables show.
var alone = map[string]string{
	"repeating": "Belfry alone: the drivers of the other services have no equal of a stored schedule that repeats.",
}

// Alone reports whether a workload measures Belfry alone.
func Alone(workload string) bool { return alone[workload] != "" }

// samePromise are the tables that have only the services with the promise of the reference. Beside each rate stands its
// cost.
var samePromise = []table{
	{"The same promise: acknowledged schedules a second", "",
		[]column{{"schedule", "rate"}, {"schedule", "task_cpu"}, {"schedule-many", "rate"}, {"schedule-many", "task_cpu"},
			{"schedule-batch", "rate"}, {"schedule-batch", "task_cpu"}}},
	{"The same promise: cancelled and touched a second", "",
		[]column{{"cancel", "rate"}, {"cancel", "task_cpu"}, {"touch-calls", "rate"}, {"touch-calls", "task_cpu"},
			{"cancel-batch", "rate"}, {"cancel-batch", "task_cpu"}}},
	{"The same promise: fires", "",
		[]column{{"burst", "drained"}, {"burst", "task_cpu"}, {"lateness", "p99"}, {"lateness", "task_cpu"},
			{"steady", "p99"}, {"steady", "task_cpu"}}},
}

// tables are the tables of all services, in order.
var tables = []table{
	{"Acknowledged schedules a second", "schedule",
		[]column{{"schedule", "rate"}, {"schedule-many", "rate"}, {"schedule-batch", "rate"}}},
	{"How long an acknowledgement takes, in ms", "",
		[]column{{"schedule", "p50"}, {"schedule", "p99"}, {"schedule", "max"}, {"schedule-many", "p99"}}},
	{"Lateness, pulled, in ms", "lateness",
		[]column{{"lateness", "p50"}, {"lateness", "p99"}, {"lateness", "max"}, {"lateness", "early"}, {"lateness", "lost"}}},
	{"Lateness, webhooks, in ms", "",
		[]column{{"lateness-webhook", "p50"}, {"lateness-webhook", "p99"}, {"lateness-webhook", "max"},
			{"lateness-webhook", "early"}, {"lateness-webhook", "lost"}}},
	{"Lateness, webhooks, while another path of the receiver fails, in ms", "",
		[]column{{"bad-path-webhook", "p50"}, {"bad-path-webhook", "p99"}, {"bad-path-webhook", "max"},
			{"bad-path-webhook", "early"}, {"bad-path-webhook", "lost"}}},
	{"Scheduling and firing at a fixed rate, in ms", "",
		[]column{{"steady", "ack_p50"}, {"steady", "ack_p99"}, {"steady", "ack_max"}, {"steady", "p99"}, {"steady", "max"},
			{"steady", "early"}}},
	{"Scheduling at half load while something else goes on: the longest acknowledgement, in ms", "",
		[]column{{"tails", "quiet_max"}, {"tails", "snapshots_max"}, {"tails", "cascade_max"}, {"tails", "storm_max"},
			{"tails", "moves_max"}, {"tails", "over"}}},
	{"A namespace beside a storm of another one: p99 by p99 alone", "",
		[]column{{"neighbours", "batches_call_ratio"}, {"neighbours", "calls_call_ratio"}, {"neighbours", "due_call_ratio"},
			{"neighbours", "silent_call_ratio"}, {"neighbours", "batches_late_ratio"}, {"neighbours", "calls_late_ratio"},
			{"neighbours", "due_late_ratio"}, {"neighbours", "silent_late_ratio"}}},
	{"A namespace beside a storm of another one: tasks in time, of those alone", "",
		[]column{{"neighbours", "batches_kept"}, {"neighbours", "calls_kept"}, {"neighbours", "due_kept"},
			{"neighbours", "silent_kept"}}},
	{"Burst", "burst",
		[]column{{"burst", "drained"}, {"burst", "early"}, {"burst", "lost"}, {"burst-webhook", "rate"},
			{"burst-webhook", "lost"}}},
	{"Cancelled a second", "cancel", []column{{"cancel", "rate"}, {"cancel-batch", "rate"}}},
	{"Touched a second", "", []column{{"touch-calls", "rate"}, {"touch-calls", "p50"}, {"touch-calls", "p99"}}},
	{"Heartbeats", "touch",
		[]column{{"touch", "rate"}, {"touch", "false"}, {"touch", "silent_p50"}, {"touch", "silent_max"},
			{"touch", "early"}, {"touch", "lost"}}},
	{"Memory", "memory",
		[]column{{"memory", "rss"}, {"memory", "rss_all"}, {"memory", "task"}, {"memory-small", "task"}}},
	{"Memory while logs are cut", "",
		[]column{{"memory-many", "rss_all"}, {"memory-many", "rss_peak"}, {"memory-many", "snapshots"}}},
	{"Repeating schedules", "",
		[]column{{"repeating", "rate"}, {"repeating", "schedule"}, {"repeating", "rss"}, {"repeating", "rss_fired"},
			{"repeating", "ready"}, {"repeating", "first"}}},
	{"Occurrences of repeating schedules", "",
		[]column{{"repeating", "fired"}, {"repeating", "late_p50"}, {"repeating", "late_p99"}, {"repeating", "late_max"},
			{"repeating", "early"}, {"repeating", "lost"}, {"repeating", "cpu_all"}}},
	{"Killed whole and started again", "restart",
		[]column{{"restart", "first"}, {"restart", "last"}, {"restart", "lost"}, {"restart", "repeats"}}},
	{"Leader killed", "failover",
		[]column{{"failover", "fires"}, {"failover", "writes"}, {"failover", "late"}, {"failover", "lost"},
			{"failover-webhook", "fires"}, {"failover-webhook", "writes"}}},
	{"Leader stopped in order", "", []column{{"handover", "late"}, {"handover", "writes"}, {"handover", "lost"}}},
	{"Idle", "", []column{{"idle", "cpu"}, {"idle", "cpu_all"}, {"idle", "rss"}}},
	{"Growth, in processor time of all processes", "", []column{{"growth", "schedule_growth"}, {"growth", "fire_growth"},
		{"growth-queues", "schedule_growth"}, {"growth-queues", "fire_growth"}}},
}
