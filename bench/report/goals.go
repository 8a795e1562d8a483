package report

import (
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/bench/workload"
)

// Names of Belfry's subjects in goals and tables: the two ways to call it, the number of shards that larger machines
// get by default, and with keys in force.
const (
	Client = "Belfry, Go client"
	Single = "Belfry, one PUT a task"
	Twelve = "Belfry, Go client, 12 shards"
	Keyed  = "Belfry, keys and namespaces"
)

// goal is a limit for one figure of Belfry. The median over the rounds must keep it.
type goal struct {
	column
	subject string
	least   bool // the limit is a minimum, else a maximum
	limit   float64
}

// Speed of the machine on which the goals were set. See [Machine].
const (
	goalEcho  = 63_000.0
	goalFsync = 50 * time.Microsecond
)

// goals are the project's goals, for the full sizes on two cores that also run the load.
var goals = []goal{
	{column{"schedule", "rate"}, Client, true, 45_000},
	{column{"schedule-many", "rate"}, Client, true, 170_000},
	{column{"schedule-batch", "rate"}, Client, true, 300_000},
	{column{"schedule", "rate"}, Single, true, 18_000},
	{column{"schedule-many", "rate"}, Single, true, 30_000},
	{column{"lateness", "p50"}, Client, false, 0.5},
	{column{"lateness", "p99"}, Client, false, 2},
	{column{"lateness", "max"}, Client, false, 10},
	{column{"lateness", "early"}, Client, false, 0},
	{column{"lateness-webhook", "p50"}, Client, false, 1},
	{column{"lateness-webhook", "p99"}, Client, false, 5},
	{column{"lateness-webhook", "max"}, Client, false, 20},
	{column{"lateness-webhook", "early"}, Client, false, 0},
	{column{"bad-path-webhook", "max"}, Client, false, 1000},
	{column{"bad-path-webhook", "lost"}, Client, false, 0},
	{column{"steady", "ack_max"}, Client, false, 50},
	{column{"tails", "over"}, Client, false, 0},
	{column{"burst", "drained"}, Client, false, 150},
	{column{"burst-webhook", "rate"}, Client, true, 20_000},
	{column{"cancel", "rate"}, Client, true, 45_000},
	{column{"cancel-batch", "rate"}, Client, true, 250_000},
	{column{"memory", "rss"}, Client, false, 350},
	{column{"memory-small", "task"}, Client, false, 195},
	{column{"restart", "first"}, Client, false, 1000},
	{column{"restart", "lost"}, Client, false, 0},
	{column{"failover", "fires"}, Client, false, 1000},
	{column{"failover", "writes"}, Client, false, 1000},
	{column{"failover-webhook", "fires"}, Client, false, 1000},
	{column{"handover", "late"}, Client, false, 50},
	{column{"idle", "cpu"}, Twelve, false, 2},
	{column{"idle", "rss"}, Twelve, false, 60},
	{column{"neighbours", "batches_call_ratio"}, Keyed, false, double},
	{column{"neighbours", "batches_late_ratio"}, Keyed, false, double},
	{column{"neighbours", "batches_kept"}, Keyed, true, mostKept},
	{column{"neighbours", "calls_call_ratio"}, Keyed, false, double},
	{column{"neighbours", "calls_late_ratio"}, Keyed, false, double},
	{column{"neighbours", "calls_kept"}, Keyed, true, mostKept},
	{column{"neighbours", "due_call_ratio"}, Keyed, false, double},
	{column{"neighbours", "due_late_ratio"}, Keyed, false, double},
	{column{"neighbours", "due_kept"}, Keyed, true, mostKept},
	{column{"neighbours", "silent_call_ratio"}, Keyed, false, double},
	{column{"neighbours", "silent_late_ratio"}, Keyed, false, double},
	{column{"neighbours", "silent_kept"}, Keyed, true, mostKept},
	{column{"growth", "schedule_growth"}, Client, false, flat},
	{column{"growth", "fire_growth"}, Client, false, flat},
	{column{"growth-queues", "schedule_growth"}, Client, false, flat},
	{column{"growth-queues", "fire_growth"}, Client, false, flat},
}

// flat is the largest accepted ratio between the cost of a task at the largest size and at the smallest. Repeated runs
// of one size differ as much.
const flat = 1.3

// The goals of a namespace beside a storm of another one.
const (
	double   = 2.0  // p99 by the p99 alone
	mostKept = 90.0 // percent of the tasks
)

// Names of the peers in contests.
const (
	natsSynced  = "NATS JetStream, 3 nodes, sync always"
	etcdMembers = "etcd, 3 members"
	anyStandby  = "PostgreSQL, ANY 1 of 2 standbys"
	redisAlways = "Redis sorted set, always"
)

// contest is a goal for the ratio of a figure of Belfry to the same figure of a peer.
type contest struct {
	goal
	peer string
}

// contests are the project's goals against peers in the same run.
var contests = []contest{
	{goal{column{"schedule", "rate"}, Single, true, 1.3}, natsSynced},
	{goal{column{"schedule-many", "rate"}, Single, true, 1.3}, natsSynced},
	{goal{column{"schedule", "rate"}, Single, true, 2.5}, etcdMembers},
	{goal{column{"schedule-many", "rate"}, Single, true, 2.5}, etcdMembers},
	{goal{column{"schedule", "rate"}, Client, true, 4}, natsSynced},
	{goal{column{"schedule-many", "rate"}, Client, true, 4}, natsSynced},
	{goal{column{"schedule-batch", "rate"}, Client, true, 1}, redisAlways},
	{goal{column{"cancel", "rate"}, Single, true, 1.5}, anyStandby},
	{goal{column{"touch-calls", "rate"}, Single, true, 1.5}, anyStandby},
	{goal{column{"burst", "drained"}, Client, false, 1.5}, redisAlways},
	{goal{column{"steady", "p99"}, Client, false, 1}, redisAlways},
}

// verdict says whether the measured figure meets the goal.
func (g goal) verdict(c cell) string {
	switch {
	case !c.present:
		return "not run"
	case !c.known():
		return "**missed**: nothing was measured"
	case g.least && c.median() >= g.limit, !g.least && c.median() <= g.limit:
		return "met"
	}
	return "**missed**"
}

func (g goal) demand(unit string) string {
	sign := "≤"
	if g.least {
		sign = "≥"
	}
	return fmt.Sprintf("%s %s%s", sign, number(g.limit, unit), spaced(unit))
}

func spaced(unit string) string {
	if unit == "" || unit[0] == '/' {
		return unit
	}
	return " " + unit
}

// Dearer returns an error that names each workload in which a task costs more than so many percent above the baseline,
// by the median of the processor time. suffix ends the names of the baseline's subjects. It is an error, too, if
// nothing can be compared, or if the baseline was measured in a workload and the subject was not.
func (r *Run) Dearer(suffix string, percent float64) error {
	var errs []error
	compared := 0
	for _, s := range r.Subjects {
		for _, w := range r.Workloads {
			now, before := r.cell(s.Name, w.Name, workload.CostKey), r.cell(s.Name+suffix, w.Name, workload.CostKey)
			switch {
			case suffix == "" || !before.known():
			case !now.known():
				errs = append(errs, fmt.Errorf("%s, %s: the baseline was measured, and this build was not", s.Name, w.Name))
			default:
				compared++
				if more := 100 * (now.median()/before.median() - 1); more > percent {
					errs = append(errs, fmt.Errorf("%s, %s: a task costs %.0f µs, %.0f %% more than the %.0f µs of the baseline",
						s.Name, w.Name, now.median(), more, before.median()))
				}
			}
		}
	}
	if compared == 0 {
		errs = append(errs, errors.New("nothing could be compared with a baseline"))
	}
	return errors.Join(errs...)
}
