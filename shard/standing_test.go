package shard

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup"
)

// willingOnly restricts transfers to willing replicas, as the cluster package does.
func (c *replicas) willingOnly() *replicas {
	tune := c.tune
	c.tune = func(cfg *Config) {
		if tune != nil {
			tune(cfg)
		}
		cfg.Node = testNode{mayLead: func(node string) bool {
			n := c.nodes[node]
			return n.Shard != nil && n.Standing() == Willing
		}}
	}
	return c
}

// TestUnwillingGivesAway checks that an unwilling leader gives its leadership away, and that other replicas stand for
// election before it.
func TestUnwillingGivesAway(t *testing.T) {
	for _, standing := range []Standing{Reluctant, Barred} {
		t.Run(standing.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newReplicas(t, 3, nil).willingOnly().startAll()
				first := c.leader()
				first.must(t, schedule("a", time.Now().Add(24*time.Hour)))
				began := time.Now()
				first.SetStanding(standing)
				second := c.leader(c.others(first.cfg.NodeID)...)
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("given away after %v", took)
				}
				second.must(t, schedule("b", time.Now().Add(24*time.Hour)))
				time.Sleep(time.Hour)
				for range 5 {
					id := second.cfg.NodeID
					c.kill(id)
					third := c.leader()
					if third == first {
						t.Fatal("it leads although another one could")
					}
					c.start(id)
					time.Sleep(time.Minute)
					second = c.leader()
				}
				first.SetStanding(Willing)
				time.Sleep(time.Minute)
				c.agree()
			})
		})
	}
}

// TestUnwillingAlone checks that a reluctant replica leads if no other replica can, and that a barred one answers
// nothing.
func TestUnwillingAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil).willingOnly().startAll()
		n := c.leader()
		for _, id := range c.others(n.cfg.NodeID) {
			c.nodes[id].SetStanding(Reluctant)
		}
		n.SetStanding(Reluctant)
		time.Sleep(time.Hour)
		c.leader().must(t, schedule("a", time.Now().Add(24*time.Hour)))

		c.leader().SetStanding(Barred)
		time.Sleep(time.Minute)
		if c.nodes[n.cfg.NodeID].IsLeader() {
			t.Fatal("a barred replica leads")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, id := range c.ids {
			for _, reply := range c.nodes[id].Do(ctx, []*fsmpb.Command{cancelOf("a")}) {
				if reply.Err == nil && c.nodes[id].Standing() == Barred {
					t.Errorf("%s has carried out a call", id)
				}
			}
		}
		if _, err := c.nodes[n.cfg.NodeID].Get(ctx, "", "a", true); !isNotLeader(err) {
			t.Errorf("a stale read of a barred replica: %v", err)
		}
		n.SetStanding(Willing)
		c.leader()
	})
}

// TestCheckpoints checks that checkpoints match the machine's hashes, at fixed indexes and at the newest, and restart
// with a snapshot.
func TestCheckpoints(t *testing.T) {
	a := newApplier(fsm.New(1))
	at := time.UnixMilli(1000)
	apply := func(a *applier, from, to uint64) {
		for i := from; i <= to; i++ {
			cmd := schedule(fmt.Sprintf("t%d", i), at.Add(time.Hour))
			cmd.GetSchedule().ReceivedAtMs = at.UnixMilli()
			e := newEntry(at, 0)
			assert.NoError(t, e.add(cmd))
			a.mustApply(t, i, e)
		}
	}
	if got := a.checkpoints.newest(); got.Index != 0 || len(a.checkpoints.from(0)) > 0 {
		t.Errorf("before anything: %v", got)
	}
	apply(a, 1, 100)
	var indexes []uint64
	for _, p := range a.checkpoints.from(40) {
		indexes = append(indexes, p.Index)
	}
	assert.Equal(t, fmt.Sprint(indexes), "[48 64 80 96 100]", "checkpoints from 40 on")
	commands, sum := a.machine.Hash()
	assert.Equal(t, a.checkpoints.newest(), Checkpoint{100, commands, sum}, "newest")
	b := newApplier(fsm.New(1))
	apply(b, 1, 2000)
	if p, ok := b.checkpoints.at(100); ok {
		t.Errorf("kept for ever: %v", p)
	}
	if p, ok := b.checkpoints.at(96); !ok || p != mustCheckpoint(t, a, 96) {
		t.Errorf("at 96: %v, %v", p, ok)
	}
	assert.NoError(t, b.Restore(snapshotOf(t, a)))
	if _, ok := b.checkpoints.at(2000); ok {
		t.Error("a checkpoint from before the restore is still there")
	}
	assert.Equal(t, b.checkpoints.newest(), Checkpoint{100, commands, sum}, "after the restore")
	apply(a, 101, 200)
	apply(b, 101, 200)
	for _, p := range b.checkpoints.from(101) {
		assert.Equal(t, p, mustCheckpoint(t, a, p.Index), "differs")
	}
}

func mustCheckpoint(t *testing.T, a *applier, index uint64) Checkpoint {
	t.Helper()
	p, ok := a.checkpoints.at(index)
	if !ok {
		t.Fatalf("no checkpoint at %d", index)
	}
	return p
}

func snapshotOf(t *testing.T, a *applier) *bytes.Buffer {
	t.Helper()
	snap, err := a.Snapshot()
	assert.NoError(t, err)
	defer snap.Release()
	var out bytes.Buffer
	if _, err := snap.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// BenchmarkCheckpoint measures the extra cost of a checkpoint per entry.
func BenchmarkCheckpoint(b *testing.B) {
	a := newApplier(fsm.New(1))
	for i := range b.N {
		a.checkpoints.add(a.checkpoint(uint64(i + 1)))
	}
}

// BenchmarkApply applies entries as a follower does, with and without a checkpoint after each.
func BenchmarkApply(b *testing.B) {
	for _, commands := range []int{1, 64} {
		for _, noted := range []bool{false, true} {
			b.Run(fmt.Sprintf("commands=%d/noted=%v", commands, noted), func(b *testing.B) {
				benchmarkApply(b, commands, noted)
			})
		}
	}
}

func benchmarkApply(b *testing.B, commands int, noted bool) {
	const distinct = 1 << 16 / 64
	a := newApplier(fsm.New(1))
	entries := make([]raftgroup.Entry, distinct)
	for i := range entries {
		e := newEntry(time.UnixMilli(1000), 0)
		for j := range commands {
			assert.NoError(b, e.add(schedule(fmt.Sprintf("t%d-%d", i, j), time.UnixMilli(5_000_000))))
		}
		entries[i] = raftgroup.Entry{Term: 3, Command: true, Data: e.data}
	}
	b.ResetTimer()
	for i := range b.N {
		e := entries[i%distinct]
		e.Index = uint64(i + 1)
		var err error
		if noted {
			_, err = a.Apply(e)
		} else {
			_, err = a.machine.Apply(e.Data, false)
		}
		assert.NoError(b, err)
	}
}
