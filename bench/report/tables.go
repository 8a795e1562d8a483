package report

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

// tables are the tables of the report, in order.
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
