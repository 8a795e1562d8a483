package verdict

import (
	"fmt"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/history"
)

// bulk returns the history of a long round: the given number of tasks that were scheduled, read and delivered, and
// thirty killed leaders.
func bulk(tasks int) *history.History {
	h := &history.History{}
	step := history.Instant(time.Minute) / history.Instant(tasks)
	for i := range tasks {
		op, id, at := int64(i+1), fmt.Sprintf("r1-%d", i), history.Instant(i+1)*step
		due := at.Add(time.Second)
		h.Calls = append(h.Calls, history.Call{
			Op: op, Kind: history.Schedule, ID: id, Node: "node-1", Batch: true, Start: at, End: at + 1,
			Ask: history.Ask{FireAt: due, Body: uint64(op)}, Outcome: history.OK, Answer: history.Answer{Revision: uint64(op)},
		}, history.Call{
			Op: int64(tasks) + op, Kind: history.Get, ID: id, Node: "node-2", Start: at + 2, End: at + 3, Outcome: history.OK,
			Answer: history.Answer{State: "scheduled", Revision: uint64(op), Shard: uint32(i%6 + 1), FireAt: due, Wrote: op},
		})
		h.Arrivals = append(h.Arrivals, history.Arrival{
			At: due + 1, ID: id, WebhookID: "w" + id, Attempt: 1, Fence: uint64(op), Due: due, Body: uint64(op), Wrote: op,
			Answer: 200,
		})
	}
	for i := range 30 {
		at := history.Instant(i+1) * history.Instant(2*time.Second)
		h.Faults = append(h.Faults, history.Fault{
			Kind: history.KillLeader, Nodes: []string{"node-1"}, Shards: []uint32{1, 2}, Struck: at,
			Mending: at.Add(time.Second), Mended: at.Add(3 * time.Second),
		})
		for shard := range uint32(6) {
			h.Terms = append(h.Terms, history.Term{Shard: shard + 1, Term: uint64(i + 1), Leader: "node-2", Before: at, At: at + 1})
		}
	}
	return h
}

func BenchmarkVerdict(b *testing.B) {
	h := bulk(150_000)
	b.ResetTimer()
	for range b.N {
		if v := Of("a long round", h, check.DefaultLimits()); v.Calls == 0 {
			b.Fatal(v)
		}
	}
	b.ReportMetric(float64(len(h.Calls)*2+len(h.Arrivals)), "events")
}
