package shard

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// A cut has all that was acknowledged before it and nothing later, however late it is read and however many snapshots
// the shard has taken since.
func TestCutIsOfOneInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := onDisk(3, t, func(id string) string { return filepath.Join(dir, id) })
		c.startAll()
		leader := c.leader()
		fill := func(name string) {
			var cmds []*fsmpb.Command
			for i := range 100 {
				cmds = append(cmds, schedule(fmt.Sprint(name, i), time.Now().Add(time.Hour)))
			}
			c.commit(cmds...)
		}
		fill("before-")
		c.commit(&fsmpb.Command{Op: &fsmpb.Command_ExpectSlots{ExpectSlots: &fsmpb.ExpectSlots{
			Move: 1, Ranges: []*fsmpb.SlotRange{{First: emptySlot("before-", 100), End: emptySlot("before-", 100) + 1}}, From: 9, Epoch: 2,
		}}})
		asked := time.Now()
		cut, err := c.leader().Cut(t.Context())
		assert.NoError(t, err)
		if cut.At.Before(asked) || cut.NowMs == 0 || cut.Index == 0 {
			t.Errorf("%+v", cut)
		}
		if len(cut.Lacks) != 1 || cut.Lacks[0].First != emptySlot("before-", 100) {
			t.Errorf("the cut lacks %v", cut.Lacks)
		}
		for i := range 4 { // more snapshots than a group keeps
			fill(fmt.Sprint("after-", i, "-"))
			assert.NoError(t, c.leader().snapshots.take(t.Context()))
		}
		m, index, err := ReadSnapshot(leader.ID(), cut)
		assert.NoError(t, errors.Join(err, cut.Close()))
		if n := m.Counts().Tasks; n != 100 || index != cut.Index || m.Get("", "before-99") == nil {
			t.Errorf("%d tasks at index %d, cut at %d", n, index, cut.Index)
		}
		for _, s := range c.nodes {
			var refused *task.NotLeaderError
			if !s.IsLeader() {
				if _, err := s.Cut(t.Context()); !errors.As(err, &refused) {
					t.Errorf("a follower was cut: %v", err)
				}
			}
		}
	})
}

// emptySlot returns a slot with none of n tasks.
func emptySlot(name string, n int) uint32 {
	used := map[uint32]bool{}
	for i := range n {
		used[task.Slot("", fmt.Sprint(name, i))] = true
	}
	for slot := uint32(0); ; slot++ {
		if !used[slot] {
			return slot
		}
	}
}
