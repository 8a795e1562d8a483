package shard

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// How a new leader asks what arrived of what the one before it had leased. It waits until one that ended in order has
// handed over what it held; a node that is slow to answer is asked again.
const (
	reclaimAfter = maxHorizon
	reclaimTries = 3
	reclaimPause = 250 * time.Millisecond
)

// reclaim gives back the tasks that the leader before has leased and that died with it on their way: nodes that live
// say that they did not come. A task whose node does not answer may be with its consumer; it is left to its lease.
func (l *leadership) reclaim(ctx context.Context) {
	open := l.given
	l.given = nil
	for try := 0; try < reclaimTries && len(open) > 0; try++ {
		if !sleep(ctx, reclaimAfter+time.Duration(try)*reclaimPause) {
			return
		}
		var lost []task.Grant
		lost, open = missing(open, l.shard.cfg.Arrived(ctx, fencesOf(open)))
		l.firing.release(lost) // what comes too late here is the next leader's
		if len(lost) > 0 {
			l.shard.metrics.reclaimed.Add(float64(len(lost)))
			l.shard.cfg.Logger.Info("tasks that were leased and did not arrive are ready again", "tasks", len(lost))
		}
	}
}

// missing picks the leases that their nodes do not have, and those of nodes that did not answer.
func missing(given []task.LiveLease, answers []desk.Arrivals) (lost []task.Grant, unknown []task.LiveLease) {
	arrived := map[uint64]bool{}
	answered := map[uint32]bool{}
	for _, a := range answers {
		answered[a.Holder] = true
		for _, fence := range a.Fences {
			arrived[fence] = true
		}
	}
	for _, g := range given {
		switch {
		case arrived[g.Fence]:
		case answered[g.Holder]:
			lost = append(lost, g.Grant)
		default:
			unknown = append(unknown, g)
		}
	}
	return lost, unknown
}

func fencesOf(given []task.LiveLease) []uint64 {
	fences := make([]uint64, len(given))
	for i, g := range given {
		fences[i] = g.Fence
	}
	return fences
}
