package shard

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// TestCallsOfALostEntryAreRefused: a leader is cut off with an entry under way, and joins its successor again. Each
// command of the call gets one answer, which says that no replica applies it: those of the entry, and those behind it.
func TestCallsOfALostEntryAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil).startAll()
		n := c.leader()
		var cmds []*fsmpb.Command
		for i := range 2 * maxEntryCommands {
			cmds = append(cmds, schedule(fmt.Sprint("task-", i), time.Now().Add(time.Hour)))
		}
		c.cut(n.cfg.NodeID)
		answers := make(chan []task.Reply, 1)
		go func() { answers <- n.Do(t.Context(), cmds) }()
		next := c.leader(c.others(n.cfg.NodeID)...)
		next.must(t, schedule("other", time.Now().Add(time.Hour)))
		c.link(n.cfg.NodeID)
		began := time.Now()
		replies := <-answers
		for i, r := range replies {
			if !isNotLeader(r.Err) {
				t.Fatalf("command %d of %d: %v, %v", i, len(replies), r.Result, r.Err)
			}
		}
		if took := time.Since(began); took > n.cfg.Timing.Election {
			t.Errorf("answered %v after the replica was back", took)
		}
		next.must(t, cmds[0])
	})
}

// TestCallsOfALostEntryStayUnknown: the leader stays cut off, so nothing is known of the entry under way. The commands
// behind it were certainly not proposed.
func TestCallsOfALostEntryStayUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil).startAll()
		n := c.leader()
		var cmds []*fsmpb.Command
		for i := range 2 * maxEntryCommands {
			cmds = append(cmds, schedule(fmt.Sprint("task-", i), time.Now().Add(time.Hour)))
		}
		c.cut(n.cfg.NodeID)
		replies := n.Do(t.Context(), cmds)
		unknown := 0
		for i, r := range replies {
			switch {
			case errors.Is(r.Err, task.ErrUnknown):
				unknown++
			case !isNotLeader(r.Err):
				t.Fatalf("command %d of %d: %v, %v", i, len(replies), r.Result, r.Err)
			}
		}
		if unknown == 0 || unknown > maxEntryCommands || !errors.Is(replies[0].Err, task.ErrUnknown) {
			t.Errorf("%d of %d commands are unknown", unknown, len(replies))
		}
	})
}
