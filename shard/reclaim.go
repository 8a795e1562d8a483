package shard

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/wait"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// The timing of reclaim. A new leader waits until a leader that ended in order has handed over its held leases. It asks
// slow nodes again.
const (
	reclaimAfter = maxHorizon
	reclaimTries = 3
	reclaimPause = 250 * time.Millisecond
)

// reclaim gives back the tasks that the previous leader leased and that died with it on their way: live nodes report
// that these leases did not arrive. A task whose node does not answer may be with its consumer, so reclaim leaves it to
// its lease.
func (l *leadership) reclaim(ctx context.Context) {
	open := l.given
	l.given = nil
	for try := 0; try < reclaimTries && len(open) > 0; try++ {
		if !wait.For(ctx, reclaimAfter+time.Duration(try)*reclaimPause) {
			return
		}
		var lost []task.Grant
		lost, open = missing(open, l.shard.cfg.Consumers.Arrived(ctx, l.shard.cfg.ID, fencesOf(open)))
		l.firing.release(lost) // leases that come too late here are the next leader's
		if len(lost) > 0 {
			l.shard.metrics.reclaimed.Add(float64(len(lost)))
			l.shard.cfg.Logger.Info("tasks that were leased and did not arrive are ready again", "tasks", len(lost))
		}
	}
}

// missing returns the leases that their nodes do not have, and the leases of nodes that did not answer.
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
