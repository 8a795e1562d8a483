package raftgroup

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup/copies"
)

// counted is a transport that counts the snapshots that it sends.
type counted struct {
	*raft.InmemTransport
	sent *atomic.Int32
}

func (c counted) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, req *raft.InstallSnapshotRequest,
	resp *raft.InstallSnapshotResponse, data io.Reader) error {
	c.sent.Add(1)
	return c.InmemTransport.InstallSnapshot(id, to, req, resp, data)
}

// slowLeader is a leader alone in its group, with a state of a mebibyte, and node d that belongs to no group yet. It
// sends copies at 64 KiB a second, and its log is cut each time that some lines have been written.
func slowLeader(t *testing.T) (leader, joining *Group, sent *atomic.Int32, meter *copies.Meter) {
	t.Helper()
	const longest = time.Hour // the transport's own limit must not end a copy
	_, wireA := raft.NewInmemTransportWithTimeout("a", longest)
	_, wireD := raft.NewInmemTransportWithTimeout("d", longest)
	wireA.Connect("d", wireD)
	wireD.Connect("a", wireA)
	sent, meter = new(atomic.Int32), copies.NewMeter(copies.MinRate)
	snapshots := SnapshotConfig{Bytes: 128 << 10, Tail: 256, TailBytes: 256 << 10}
	leader, _, _ = open(t, func(cfg *Config) {
		cfg.Storage = memory{raft.NewInmemStore(), onDisk(t)}
		cfg.Transport, cfg.Copies, cfg.Snapshots = counted{wireA, sent}, meter.Of(7), snapshots
	})
	joining, err := Open(Config{
		Name: "group 7", NodeID: "d", Machine: &journalist{}, Storage: newMemory(), Transport: wireD,
		Timing: leader.cfg.Timing, Snapshots: snapshots, Fatal: func(err error) { t.Error(err) },
	})
	assert.NoError(t, err)
	write(t, leader, 1<<20)
	cut(t, leader)
	return leader, joining, sent, meter
}

// onDisk returns a store of snapshots that lists a snapshot only when it is whole. Raft's store in memory does not.
func onDisk(t *testing.T) raft.SnapshotStore {
	t.Helper()
	store, err := raft.NewFileSnapshotStore(t.TempDir(), 2, io.Discard)
	assert.NoError(t, err)
	return store
}

// write appends entries of the given bytes together, and cuts the log as often as it has grown enough.
func write(t *testing.T, g *Group, bytes int) {
	t.Helper()
	line := strings.Repeat("x", 1<<10)
	for range bytes / len(line) {
		_, err := g.Propose(t.Context(), []byte(line))
		assert.NoError(t, err)
		select {
		case <-g.Grown():
			cut(t, g)
		default:
		}
	}
}

// cut takes a snapshot, a millisecond after the last one: two of one millisecond would have one name.
func cut(t *testing.T, g *Group) {
	t.Helper()
	<-time.After(time.Millisecond)
	assert.NoError(t, g.Snapshot())
}

func addLearner(t *testing.T, g *Group) {
	t.Helper()
	assert.NoError(t, g.ChangeMembers(t.Context(), seen(t, g), MemberChange{AddNonvoter: "d"}))
}

// TestSlowCopyEnds checks that a copy ends although the log grows faster than the copy leaves: the log behind the
// copy's snapshot stays until the replica has it. Afterwards the log is cut again.
func TestSlowCopyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, joining, sent, _ := slowLeader(t)
		defer closed(t, g)
		defer closed(t, joining)
		addLearner(t, g)
		for range 30 { // seconds: the copy takes 16
			write(t, g, 2*copies.MinRate)
			<-time.After(time.Second)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := g.CatchUp(ctx, "d"); err != nil || sent.Load() != 1 {
			t.Errorf("%d copies, and the replica lacks %d entries, %v", sent.Load(), g.lag("d"), err)
		}
		write(t, g, 256<<10)
		if first, err := g.cfg.Storage.Log().FirstIndex(); err != nil || g.raft.LastIndex()-first > 600 {
			t.Errorf("the log still has entries %d to %d, %v", first, g.raft.LastIndex(), err)
		}
	})
}

// TestOvertakenCopyIsRepeatedWithoutLimit checks that a copy that the log has overtaken is sent again at full speed,
// instead of one slow copy after the other.
func TestOvertakenCopyIsRepeatedWithoutLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, joining, sent, meter := slowLeader(t)
		defer closed(t, g)
		defer closed(t, joining)
		addLearner(t, g)
		<-time.After(time.Second)
		if now := meter.UnderWay(); len(now) != 1 || !now[0].Limited || now[0].Node != "d" {
			t.Fatalf("under way: %+v", now)
		}
		write(t, g, (heldLog+1)<<20)
		<-time.After(20 * time.Second)
		write(t, g, 1<<10)
		<-time.After(10 * time.Second) // without the limit it takes no time; with it, more than a minute
		if n, lag := sent.Load(), g.lag("d"); n != 2 || lag > MostLag {
			t.Errorf("%d copies, and the replica lacks %d entries", n, lag)
		}
	})
}

// TestUselessCopyEnds checks that the copy to a node that has been removed ends, and so do the copies of a group that
// stops, at either end.
func TestUselessCopyEnds(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, g, joining *Group){
		"removed": func(t *testing.T, g, _ *Group) {
			assert.Equal(t, g.ChangeMembers(t.Context(), seen(t, g), MemberChange{Remove: "d"}), nil)
		},
		"leader stops":   func(t *testing.T, g, _ *Group) { closed(t, g) },
		"receiver stops": func(t *testing.T, _, joining *Group) { closed(t, joining) },
	} {
		synctest.Test(t, func(t *testing.T) {
			g, joining, _, meter := slowLeader(t)
			addLearner(t, g)
			<-time.After(time.Second)
			assert.MustEqual(t, len(meter.UnderWay()), 1, "%s: no copy is under way", name)
			_, err := g.copyEnds("d", g.Term()+1)
			assert.ErrorIs(t, err, errNoLeaderNow, "a copy of another term goes on")
			began := time.Now()
			end(t, g, joining)
			<-time.After(time.Second)
			if took := time.Since(began); len(meter.UnderWay()) != 0 || took > 3*time.Second {
				t.Errorf("%s: after %v: %v", name, took, meter.UnderWay())
			}
			if name != "leader stops" {
				closed(t, g)
			}
			if name != "receiver stops" {
				closed(t, joining)
			}
		})
	}
}

// TestCopyOutlivesItsHold checks that a copy may end whole after the leadership in whose term it began. By then the
// group has stopped keeping the log for it, or keeps the log for the next copy.
func TestCopyOutlivesItsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, joining, _, _ := slowLeader(t)
		defer closed(t, g)
		defer closed(t, joining)
		addLearner(t, g)
		<-time.After(time.Second)
		req := &raft.InstallSnapshotRequest{Term: g.Term(), LastLogIndex: g.raft.LastIndex(), Size: 1}
		next := &hold{term: req.Term}
		for name, meanwhile := range map[string]func(){
			"the leadership ended": func() {
				g.stopping.Store(true)
				g.holdsLog()
				g.stopping.Store(false)
			},
			"the next copy began": func() { g.copying.begin("d", next) },
		} {
			err := g.sendCopy("d", req, func(*copies.Copy) error { meanwhile(); return nil })
			assert.Equal(t, err, nil, "%s", name)
		}
		if !next.whole.IsZero() {
			t.Error("the next copy counts as whole when the one before it ends")
		}
	})
}
