package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// The moments of a move at which nodes end.
var moments = map[string]func(s view.Shard) bool{
	"a copy is placed": func(s view.Shard) bool { return copyOf(s) != "" },
	"the target votes": func(s view.Shard) bool {
		return len(s.Target) > 0 && copyOf(s) == "" && len(s.Replicas) > len(s.Target)
	},
	"the leader stays behind": func(s view.Shard) bool {
		return len(s.Target) > 0 && s.Leader != "" && !slices.Contains(s.Target, s.Leader)
	},
}

// copyOf returns the node of a replica that does not vote yet, or "".
func copyOf(s view.Shard) string {
	for _, r := range s.Replicas {
		if slices.Contains(s.Target, r.Node) && !r.Voter {
			return r.Node
		}
	}
	return ""
}

// victims name the node that ends while a shard moves; "" if there is none.
var victims = map[string]func(c *clustertest.Cluster, s view.Shard) string{
	"reconciler": func(c *clustertest.Cluster, _ view.Shard) string { return c.Nodes()[0].ControlLeader() },
	"source":     func(_ *clustertest.Cluster, s view.Shard) string { return s.Leader },
	"target": func(_ *clustertest.Cluster, s view.Shard) string {
		if node := copyOf(s); node != "" {
			return node
		}
		return s.Target[0]
	},
}

// A node ends without a farewell in the middle of a move: the leader of the control group, which plans the move, the
// leader of the shard, or the node that gets a copy, each of them at each moment. The move goes on and ends, and no
// acknowledged task is lost.
func TestMoveSurvivesCrashes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, func(i int, cfg *cluster.Config) {
			hastyForGood(i, cfg)
			cfg.StepPause = stepPause
		})
		c.Start(c.Add())
		awaitReplicas(c, 3, 4)
		l := &load{}
		for _, moment := range []string{"a copy is placed", "the target votes", "the leader stays behind"} {
			for _, victim := range []string{"reconciler", "target", "source"} {
				l.moveAndCrash(t, c, moment, victim)
			}
		}
		if n := l.lost(t, c); n > 0 {
			t.Errorf("%d of %d acknowledged tasks are lost", n, len(l.acknowledged))
		}
	})
}

// stepPause is longer than the time between two looks at a cluster, so that no moment of a move passes unseen.
const stepPause = 25 * time.Millisecond

// hastyForGood makes nodes take replicas soon, and lets an absent node keep its replicas.
func hastyForGood(i int, cfg *cluster.Config) {
	hasty(i, cfg)
	cfg.ReplaceAfter = time.Hour
}

// load schedules tasks through any node, and remembers those that were acknowledged.
type load struct {
	begun, looks int
	acknowledged []string
}

// look schedules a task every few looks at the cluster.
func (l *load) look(t *testing.T, c *clustertest.Cluster) {
	if l.looks++; l.looks%4 == 0 {
		l.schedule(t, c)
	}
}

func (l *load) schedule(t *testing.T, c *clustertest.Cluster) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	running := c.Nodes()
	l.begun++
	id := fmt.Sprint("load", l.begun)
	reply := running[l.begun%len(running)].Do(ctx, []*fsmpb.Command{schedule(id, time.Hour)})[0]
	if reply.Err == nil {
		l.acknowledged = append(l.acknowledged, id)
	}
}

func (l *load) lost(t *testing.T, c *clustertest.Cluster) (lost int) {
	t.Helper()
	for _, id := range l.acknowledged {
		task, err := c.Node(0).Get(t.Context(), "default", id, false)
		if err != nil || task == nil {
			lost++
		}
	}
	return lost
}

// moveAndCrash drains a node that leads a shard, ends another one at the moment, starts it again, and waits until the
// drain is done. Then the drained node works again.
func (l *load) moveAndCrash(t *testing.T, c *clustertest.Cluster, moment, victim string) {
	t.Helper()
	shards := c.Node(0).View(t.Context()).Shards
	drained := shards[l.begun%len(shards)].Leader
	drain := &clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_DRAIN, Node: drained}
	c.Until("the others may take its replicas", func() error {
		_, err := c.Node(0).Operations().Begin(t.Context(), drain, true)
		return err
	})
	began, err := c.Node(0).Operations().Begin(t.Context(), drain, false)
	if err != nil {
		t.Fatal(err)
	}
	struck := -1
	c.Until(moment, func() error {
		l.look(t, c)
		for _, s := range c.Nodes()[0].View(t.Context()).Shards {
			if moments[moment](s) {
				if struck = c.Index(victims[victim](c, s)); struck >= 0 {
					return nil
				}
			}
		}
		if op, _ := c.Nodes()[0].Operations().Operation(began.Operation.Id); op.GetEndedMs() > 0 {
			return nil
		}
		return errors.New("it has not come yet")
	})
	if struck < 0 {
		t.Fatalf("the drain is done without the moment: %s, %s", moment, victim)
	}
	c.Crash(struck)
	for range 20 {
		l.schedule(t, c)
	}
	c.Start(struck)
	c.Until("the drain is done", func() error {
		l.look(t, c)
		op, left := c.Nodes()[0].Operations().Operation(began.Operation.Id)
		if op.GetState() != clusterpb.OperationState_OPERATION_STATE_DONE {
			return fmt.Errorf("%v, %d left", op, left)
		}
		return nil
	})
	c.WaitReady()
	finish(t, c, c.Node(0), &clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_RESUME, Node: drained})
	awaitReplicas(c, 3, 4)
}
