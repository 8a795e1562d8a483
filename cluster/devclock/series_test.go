package devclock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/cluster/devclock"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/shard"
)

// memory is a replica's disk in memory.
type memory struct {
	*raft.InmemStore
	snapshots raft.SnapshotStore
}

func (m memory) Log() raft.LogStore            { return m.InmemStore }
func (m memory) Stable() raft.StableStore      { return m.InmemStore }
func (m memory) Snapshots() raft.SnapshotStore { return m.snapshots }
func (m memory) Close() error                  { return nil }

// receiver delivers everything.
type receiver struct{}

func (receiver) Deliver(context.Context, task.Attempt) task.Outcome {
	return task.Outcome{Delivered: true}
}

func (receiver) DeliverBatch(_ context.Context, batch []task.Attempt) []task.Outcome {
	outcomes := make([]task.Outcome, len(batch))
	for i := range outcomes {
		outcomes[i].Delivered = true
	}
	return outcomes
}

// newShard starts a shard of one replica with a dev clock, and waits until it leads.
func newShard(t *testing.T) (*shard.Shard, *devclock.Clock) {
	clock := devclock.New()
	_, wire := raft.NewInmemTransport("n1")
	s, err := shard.Open(shard.Config{
		ID: 1, NodeID: "n1", Replicas: []shard.Replica{{NodeID: "n1"}}, Transport: wire, Timing: shard.Alone(),
		Storage: memory{raft.NewInmemStore(), raft.NewInmemSnapshotStore()},
		Deliver: receiver{}, Clock: clock.Now, DevClock: clock, Fatal: func(err error) { t.Error(err) },
	})
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.Equal(t, s.Close(context.Background()), nil)
	})
	clock.Use(func() []*shard.Shard { return []*shard.Shard{s} })
	for !s.IsLeader() {
		time.Sleep(time.Millisecond)
	}
	return s, clock
}

// TestAdvanceRunsSchedules advances the clock over many occurrences of a schedule. All of them run, and none counts as
// missed.
func TestAdvanceRunsSchedules(t *testing.T) {
	for name, row := range map[string]struct {
		repeat *fsmpb.Repeat
		by     time.Duration
		want   uint64
	}{
		"a year of every night": {&fsmpb.Repeat{Cron: []string{"30 2 * * *"}, TimeZone: "Europe/Berlin"},
			365 * 24 * time.Hour, 365},
		"two days of every hour":    {&fsmpb.Repeat{EveryMs: 3600_000}, 48 * time.Hour, 48},
		"20 seconds of every 100ms": {&fsmpb.Repeat{EveryMs: 100}, 20 * time.Second, 200},
		"a year with jitter": {&fsmpb.Repeat{Cron: []string{"0 0 1 * *"}, JitterMs: 24 * 3600_000},
			365 * 24 * time.Hour, 11},
		"a count": {&fsmpb.Repeat{EveryMs: 3600_000, Count: 7}, 48 * time.Hour, 7},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, clock := newShard(t)
				reply := s.Do(t.Context(), []*fsmpb.Command{{Id: "a@", Op: &fsmpb.Command_SetSeries{SetSeries: &fsmpb.SetSeries{
					Spec: &fsmpb.Spec{Target: &fsmpb.Target{Url: "http://receiver.test/"}},
					Series: &fsmpb.Series{
						Repeat: row.repeat, Misfire: fsmpb.Misfire_MISFIRE_SKIP, Overlap: fsmpb.Overlap_OVERLAP_ALLOW,
					},
					ReceivedAtMs: clock.Now().UnixMilli(),
				}}}})[0]
				if reply.Err != nil || reply.Result.Code != fsmpb.Code_CODE_CREATED {
					t.Fatal(reply)
				}
				if _, begun, err := clock.Advance(t.Context(), "", row.by); err != nil || begun != row.want {
					t.Errorf("%d attempts began, want %d; %v", begun, row.want, err)
				}
				view, err := s.Get(t.Context(), "", "a@", false)
				assert.NoError(t, err)
				if v := view.Series; v.Started != row.want || v.Last != row.want || v.Passed > 0 {
					t.Errorf("%d occurrences, %d started, %d passed", v.Last, v.Started, v.Passed)
				}
			})
		})
	}
}
