package dispatch

import (
	"fmt"
	"testing"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/internal/throttle"
)

// policies are the policies of queues, by name.
type policies map[string]*fsmpb.QueuePolicy

func (p policies) Policy(_, queue string) *fsmpb.QueuePolicy { return p[queue] }

// BenchmarkEntry makes entries that settle an attempt in each of 64 lanes with a backlog and grant the next one there,
// beside lanes that are full.
func BenchmarkEntry(b *testing.B) {
	for _, full := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("full=%d", full), func(b *testing.B) {
			const busy = 64
			now, cfg := time.Unix(1e9, 0), throttle.Default()
			paused := policies{"paused": {Paused: true}}
			p := New(Config{Throttle: cfg, Crowd: NewCrowd(1 << 14), Policies: paused})
			loads := make([]task.LaneLoad, busy+full)
			for i := range loads {
				l := task.Lane{Namespace: "ns", Queue: "q", Destination: fmt.Sprintf("http://receiver%d.test/", i)}
				loads[i] = task.LaneLoad{Lane: l, Ready: 1000}
				if i >= busy {
					loads[i].Lane.Queue = "paused"
				}
			}
			p.Begin(now, loads, nil)
			for range 2 * (busy + full) / maxLooks {
				p.Plan(now, false)
				p.Applied(now, Entry{})
			}
			delivered, settled := Ending{Ending: throttle.Ending{Delivered: true, Took: time.Millisecond}}, loads[:busy]
			grants := make([]task.Grant, busy)
			for i := range settled {
				settled[i].Firing = cfg.Start
				grants[i] = task.Grant{Lane: settled[i].Lane}
			}
			p.Applied(now, Entry{Lanes: settled})
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Millisecond)
				for i := range settled {
					p.Ended(now, settled[i].Lane, &delivered)
				}
				p.Plan(now, true)
				p.Applied(now, Entry{Proposed: true, Took: time.Millisecond, Lanes: settled, Grants: grants})
				p.Next(now)
			}
		})
	}
}
