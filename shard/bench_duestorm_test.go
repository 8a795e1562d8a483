package shard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// The load of BenchmarkDueStorm.
const (
	dueStormTasks   = 20_000
	dueStormTargets = 100
	dueCalmTasks    = 200
	dueCalmEvery    = 5 * time.Millisecond
)

// BenchmarkDueStorm has tasks of one namespace come due over a second, alone and beside 20 000 tasks of another
// namespace that come due in its first millisecond, at a hundred receivers. It measures how late the attempts of the
// first namespace begin. All replicas run on real files in this process, and all receivers answer at once.
func BenchmarkDueStorm(b *testing.B) {
	for name, storm := range map[string]int{"alone": 0, "other": dueStormTasks} {
		b.Run(name, func(b *testing.B) {
			var late []time.Duration
			for b.Loop() {
				late = append(late, dueBeside(b, storm)...)
			}
			slices.Sort(late)
			at := func(q float64) float64 {
				return float64(late[int(q*float64(len(late)-1))].Microseconds()) / 1000
			}
			b.ReportMetric(at(0.5), "ms-late-p50")
			b.ReportMetric(at(0.99), "ms-late-p99")
		})
	}
}

// dueBeside returns the lateness of each task of the calm namespace.
func dueBeside(b *testing.B, storm int) (late []time.Duration) {
	c := lanOnDisk(b, 3)
	defer c.close()
	n, from := c.leader(), time.Now().Add(4*time.Second).Truncate(time.Millisecond)
	var cmds []*fsmpb.Command
	add := func(namespace, id string, target int, at time.Time) {
		cmd := schedule(id, at)
		cmd.Namespace = namespace
		cmd.GetSchedule().Spec.Target.Url = fmt.Sprintf("http://%s-%d.test/hook", namespace, target)
		cmds = append(cmds, cmd)
	}
	for i := range storm {
		add("storm", fmt.Sprint("storm-", i), i%dueStormTargets, from)
	}
	due := map[string]time.Time{}
	for i := range dueCalmTasks {
		id := fmt.Sprint("calm-", i)
		due[id] = from.Add(time.Duration(i) * dueCalmEvery)
		add("calm", id, 0, due[id])
	}
	n.mustAll(b, cmds)
	if time.Until(from) < 0 {
		b.Fatal("not ready when the storm began: too much else runs on this machine")
	}
	<-time.After(time.Until(from.Add(dueCalmTasks * dueCalmEvery)))
	c.eventually("all attempts", func() bool { return len(c.sink.all()) >= len(cmds) })
	for _, a := range c.sink.all() {
		if strings.HasPrefix(a.id, "calm") {
			late = append(late, a.at.Sub(due[a.id]))
		}
	}
	return late
}
