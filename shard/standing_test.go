package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
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

// TestNoRoom checks that a leader without room refuses commands that need some and carries out the others in order. A
// replica that does not lead returns NotLeaderError.
func TestNoRoom(t *testing.T) {
	for name, lack := range map[string]error{
		"disks": task.ErrNoRoom, "memory": &task.MemoryError{Node: "n2", Limit: "1GiB"},
	} {
		t.Run(name, func(t *testing.T) { testLack(t, lack) })
	}
}

func testLack(t *testing.T, lack error) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil).startAll()
		due := time.Now().Add(time.Hour)
		n := c.leader()
		keyed := func(hash uint64) *fsmpb.Command {
			cmd := schedule("keyed", due)
			cmd.Key = &fsmpb.Key{Hash: hash, Call: hash}
			return cmd
		}
		n.must(t, schedule("a", due))
		n.must(t, keyed(1))
		for _, id := range c.ids {
			c.nodes[id].SetRoom(lack)
		}
		if r := n.Do(t.Context(), []*fsmpb.Command{keyed(1), keyed(2)}); r[0].Err != nil ||
			!r[0].Result.GetRepeated() || !errors.Is(r[1].Err, lack) {
			t.Errorf("a call repeated with its key, and one with another: %v", r)
		}
		replies := n.Do(t.Context(), []*fsmpb.Command{schedule("b", due), cancelOf("a"), schedule("a", due), cancelOf("b")})
		if !errors.Is(replies[0].Err, lack) || !errors.Is(replies[2].Err, lack) {
			t.Errorf("scheduled: %v, %v", replies[0], replies[2])
		}
		if replies[1].Err != nil || replies[1].Result.GetOutcome() != fsmpb.CancelOutcome_CANCEL_OUTCOME_CANCELLED {
			t.Errorf("cancel: %v", replies[1])
		}
		if replies[3].Err != nil || replies[3].Result.GetCode() != fsmpb.Code_CODE_NOT_FOUND {
			t.Errorf("cancel of the refused task: %v", replies[3])
		}
		for _, id := range c.others(n.cfg.NodeID) {
			if err := c.nodes[id].Do(t.Context(), []*fsmpb.Command{schedule("c", due)})[0].Err; !isNotLeader(err) {
				t.Errorf("%s: %v", id, err)
			}
		}
		n.SetRoom(nil)
		n.must(t, schedule("b", due))
	})
}

// TestSnapshotNeedsRoom checks that no snapshot begins without room on the disk for it.
func TestSnapshotNeedsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var room atomic.Bool
		c := newReplicas(t, 1, func(cfg *Config) {
			cfg.Node = testNode{fits: func(size int64) bool { return room.Load() && size > 0 }}
		}).startAll()
		n := c.leader()
		n.must(t, schedule("a", time.Now().Add(time.Hour)))
		if err := n.snapshots.take(t.Context()); err == nil || !strings.Contains(err.Error(), "no room") {
			t.Errorf("without room: %v", err)
		}
		if list, err := n.stores.snapshots.List(); err != nil || len(list) > 0 {
			t.Errorf("snapshots: %v, %v", list, err)
		}
		room.Store(true)
		assert.Equal(t, n.snapshots.take(t.Context()), nil)
	})
}

// TestLogBehindSnapshotIsBounded checks that the log keeps fewer entries after a snapshot if they are large.
func TestLogBehindSnapshotIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 64 << 10
		c := newReplicas(t, 3, func(cfg *Config) { cfg.SnapshotLog, cfg.SnapshotTailBytes = 1<<40, bound }).startAll()
		n, due := c.leader(), time.Now().Add(time.Hour)
		for i := range 100 {
			n.must(t, schedule(fmt.Sprintf("small-%d", i), due))
		}
		n.mustSnapshot(t)
		if first, _ := n.stores.FirstIndex(); first != 1 {
			t.Fatalf("the log begins at %d after entries that all fit", first)
		}
		for i := range 100 {
			large := schedule(fmt.Sprintf("large-%d", i), due)
			large.GetSchedule().Spec.Payload = make([]byte, 10<<10)
			n.must(t, large)
		}
		n.mustSnapshot(t)
		first, err := n.stores.FirstIndex()
		assert.NoError(t, err)
		kept, last := 0, n.group.Stats().Last
		for i := first; i <= last; i++ {
			var e raft.Log
			assert.NoError(t, n.stores.GetLog(i, &e))
			kept += len(e.Data)
		}
		if kept > bound || kept < bound/2 {
			t.Errorf("%d bytes in %d entries are kept, the bound is %d", kept, last-first+1, bound)
		}
	})
}

func (n *node) mustSnapshot(t *testing.T) {
	t.Helper()
	assert.NoError(t, n.snapshots.take(t.Context()))
}
