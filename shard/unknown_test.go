package shard

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

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
