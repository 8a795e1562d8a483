package shard

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

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
		if err := n.snapshots.take(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
