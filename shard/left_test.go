package shard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// TestDoThen: the caller of a call leaves while an entry with some of its commands cannot commit. The call's end is
// told once, when these commands are applied, and the other commands never are.
func TestDoThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil).startAll()
		n := c.leader()
		var cmds []*fsmpb.Command
		for i := range 2 * maxEntryCommands {
			cmds = append(cmds, schedule(fmt.Sprint("task-", i), time.Now().Add(time.Hour)))
		}
		applied := make(chan uint64, 2) // at each call of then
		then := func() { applied <- n.machine.NamespaceUse("").Pending }
		c.cut(n.cfg.NodeID)
		ctx, cancel := context.WithTimeout(t.Context(), n.cfg.Timing.Lease/4)
		defer cancel()
		unknown := uint64(0)
		for _, r := range n.DoThen(ctx, 0, cmds, then) {
			if errors.Is(r.Err, task.ErrUnknown) {
				unknown++
			}
		}
		synctest.Wait()
		if unknown == 0 || unknown == uint64(len(cmds)) || len(applied) > 0 {
			t.Fatalf("%d commands of %d are under way, then was called %d times", unknown, len(cmds), len(applied))
		}
		c.link(n.cfg.NodeID)
		assert.Equal(t, <-applied, unknown, "tasks at the end of the call")
		n.must(t, schedule("another", time.Now().Add(time.Hour)))
		if got := n.machine.NamespaceUse("").Pending; got != unknown+1 || len(applied) > 0 {
			t.Errorf("%d tasks in place of %d, then was called %d times again", got, unknown+1, len(applied))
		}
	})
}

// TestDoThenAfterTheLeadership checks that a call of unknown outcome ends with the leadership of its leader, which
// other replicas have replaced meanwhile. Its claims would otherwise be held for ever.
func TestDoThenAfterTheLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil).startAll()
		n := c.leader()
		ended := make(chan struct{})
		c.cut(n.cfg.NodeID)
		ctx, cancel := context.WithTimeout(t.Context(), n.cfg.Timing.Lease/4)
		defer cancel()
		cmds := []*fsmpb.Command{schedule("a", time.Now().Add(time.Hour))}
		for _, r := range n.DoThen(ctx, 0, cmds, func() { close(ended) }) { // a second call of the function would panic
			assert.ErrorIs(t, r.Err, task.ErrUnknown)
		}
		synctest.Wait()
		select {
		case <-ended:
			t.Fatal("the call ended while its entry could still commit")
		default:
		}
		begin := time.Now()
		<-ended
		if took := time.Since(begin); took > 10*n.cfg.Timing.Lease {
			t.Errorf("the call ended after %v", took)
		}
		if n.IsLeader() {
			t.Error("the call ended during the leadership")
		}
		c.link(n.cfg.NodeID)
	})
}

// TestDoThenAtOnce checks the end of calls of which no command is under way any more when they return.
func TestDoThenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 1, nil).startAll()
		n := c.leader()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		cmds := []*fsmpb.Command{schedule("a", time.Now().Add(time.Hour))}
		for name, ctx := range map[string]context.Context{"answered": t.Context(), "cancelled": over} {
			var ends atomic.Int32
			n.DoThen(ctx, 0, cmds, func() { ends.Add(1) })
			n.DoThen(ctx, 0, nil, func() { ends.Add(1) })
			if got := ends.Load(); name == "answered" && got != 2 {
				t.Errorf("%d ends in place of 2", got)
			}
			synctest.Wait()
			if got := ends.Load(); got != 2 {
				t.Errorf("%s: %d ends in place of 2", name, got)
			}
		}
	})
}

// TestDoThenInItsTerm checks that claims of one leadership let no command into the entries of another one.
func TestDoThenInItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 1, nil).startAll()
		n := c.leader()
		term, err := n.Lead(t.Context())
		assert.NoError(t, err)
		for _, of := range []uint64{term - 1, term, 0} {
			ended := false
			cmds := []*fsmpb.Command{schedule(fmt.Sprint("of-", of), time.Now().Add(time.Hour))}
			err := n.DoThen(t.Context(), of, cmds, func() { ended = true })[0].Err
			var elsewhere *task.NotLeaderError
			if refused := errors.As(err, &elsewhere); !ended || refused != (of == term-1) || !refused && err != nil {
				t.Errorf("term %d in term %d: ended %v, %v", of, term, ended, err)
			}
		}
		assert.Equal(t, n.machine.NamespaceUse("").Pending, 2, "tasks")
	})
}

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

// TestCommandOfANewerBuild checks that a command of a kind that this build does not know, which another node may send
// during an upgrade, is refused with its call and is not in the log, so that the replicas go on.
func TestCommandOfANewerBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil).startAll()
		n := c.leader()
		sound := schedule("sound", time.Now().Add(time.Hour))
		for i, r := range n.Do(t.Context(), []*fsmpb.Command{sound, {Id: "unknown"}}) {
			if !errors.Is(r.Err, task.ErrNotProposed) || !errors.Is(r.Err, errUnknownKind) {
				t.Errorf("command %d: %v, %v", i, r.Result, r.Err)
			}
		}
		n.must(t, sound)
	})
}
