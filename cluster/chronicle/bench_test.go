//go:build unix

package chronicle_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/chronicle"
	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/history"
	"github.com/belfryhq/belfry/internal/assert"
)

// replica is a state machine whose events go to a history.
type replica struct {
	*fsm.Machine
	shard  *chronicle.Shard
	index  uint64
	events []task.Event

	spent map[string]time.Duration // processor time by kind of entry
}

func (r *replica) apply(b *testing.B, kind string, commands ...*fsmpb.Command) []task.Grant {
	b.StopTimer()
	r.index++
	at := int64(1_800_000_000_000) + int64(r.index)
	data, err := proto.Marshal(&fsmpb.Entry{Version: fsm.CommandVersion, AtMs: at, Commands: commands})
	assert.NoError(b, err)
	b.StartTimer()
	began := processorTime(b)
	applied, err := r.Apply(data, true)
	assert.NoError(b, err)
	r.shard.Append(r.index, r.events)
	r.events = r.events[:0]
	r.spent[kind] += processorTime(b) - began
	return applied.Grants
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	assert.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkBurst measures a leading replica's part of a burst: 50,000 tasks are scheduled, come due in one millisecond,
// go to consumers and are settled. It reports the processor time of the process while each kind of entry is applied.
func BenchmarkBurst(b *testing.B) {
	const count, batch = 50_000, 1000
	store, err := history.Open(history.Config{Dir: b.TempDir()})
	assert.NoError(b, err)
	shard, err := chronicle.NewKeeper(store).Shard(1)
	assert.NoError(b, err)
	r := &replica{Machine: fsm.New(1), shard: shard, spent: map[string]time.Duration{}}
	r.Observe(func(e *task.Event) { r.events = append(r.events, *e) })
	policy := &fsmpb.Policy{Window: 1000, AttemptTimeoutMs: 15_000, LeaseMarginMs: 5000, MaxAttempts: 3, HorizonMs: 20}
	takeover := &fsmpb.Takeover{Policy: policy, Origin: 77}
	rules := &fsmpb.SetRules{Rules: []*fsmpb.QueueRule{{Namespace: "default", Queue: "work"}}}
	r.apply(b, "rule", &fsmpb.Command{Op: &fsmpb.Command_Takeover{Takeover: takeover}},
		&fsmpb.Command{Op: &fsmpb.Command_SetRules{SetRules: rules}})
	payload := make([]byte, 200)
	b.ReportAllocs()
	b.ResetTimer()
	n := 0
	for b.Loop() {
		due := int64(1_800_000_000_000) + int64(r.index) + 200
		for from := 0; from < count; from += batch {
			var commands []*fsmpb.Command
			for i := range batch {
				op := &fsmpb.Schedule{
					FireAtMs: due, ReceivedAtMs: due - 100, Spec: &fsmpb.Spec{Queue: "work", Payload: payload},
				}
				id := fmt.Sprintf("task-%d-%d", n, from+i)
				commands = append(commands, &fsmpb.Command{Id: id, Op: &fsmpb.Command_Schedule{Schedule: op}})
			}
			r.apply(b, "schedule", commands...)
		}
		advance := &fsmpb.Advance{ToMs: due, Max: batch, Policy: policy}
		grant := &fsmpb.Grant{Lane: &fsmpb.Lane{Namespace: "default", Queue: "work"}, Max: batch, LeaseMs: 60_000,
			Holder: 1, Tag: 1, Policy: policy}
		for range count / batch {
			r.apply(b, "advance", &fsmpb.Command{Op: &fsmpb.Command_Advance{Advance: advance}})
		}
		for range count / batch {
			granted := r.apply(b, "grant", &fsmpb.Command{Op: &fsmpb.Command_Grant{Grant: grant}})
			assert.MustEqual(b, len(granted), batch, "grants")
			var commands []*fsmpb.Command
			for _, g := range granted {
				op := &fsmpb.Settle{
					Fence: g.Fence, Occurrence: g.Occurrence, Verdict: fsmpb.Verdict_VERDICT_DELIVERED, Consumer: true,
					Queue: "work",
				}
				commands = append(commands, &fsmpb.Command{Id: g.ID, Op: &fsmpb.Command_Settle{Settle: op}})
			}
			r.apply(b, "settle", commands...)
		}
		began := processorTime(b)
		assert.NoError(b, shard.Sync(r.index))
		r.spent["sync"] += processorTime(b) - began
		n++
	}
	for kind, spent := range r.spent {
		if kind != "rule" {
			b.ReportMetric(float64(spent.Nanoseconds())/float64(n*count), kind+"-ns/task")
		}
	}
	assert.NoError(b, store.Close())
}
