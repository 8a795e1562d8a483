package shard

import (
	"math"

	"github.com/belfryhq/belfry/fsm/task"
)

// looks are the lanes whose consumers have asked whether anything is there, and since when by the leader's clock, in
// Unix milliseconds; 0: since the next entry is put together.
type looks map[task.Lane]int64

func (l *looks) add(lane task.Lane) {
	if *l == nil {
		*l = looks{}
	}
	(*l)[lane] = 0
}

// answerLooks tells consumers that no task is there for them. It answers a lane once all tasks that were due at the
// time of the question have been found due and none of them waits in the lane for the next entry. Tasks of a paused
// queue are not there for any consumer.
func (p *proposer) answerLooks() {
	b := p.book
	if len(b.looks) == 0 {
		return
	}
	now, inOrder := p.shard.clock.now()
	next, ok := p.shard.machine.Next()
	if !ok {
		next = math.MaxInt64
	}
	for lane, since := range b.looks {
		if since == 0 {
			since = now.UnixMilli()
			b.looks[lane] = since
		}
		if inOrder && next > since && !b.willGrant(lane) {
			delete(b.looks, lane)
			p.lead.desk.Nothing(lane)
		}
	}
}

// willGrant reports whether a later entry grants the tasks that wait in a lane now, if the lane has consumers.
func (b *book) willGrant(key task.Lane) bool {
	l := b.lanes[key]
	return l != nil && l.Pulled && l.consumed >= 0 && l.Ready > 0 && !l.queue.isShut()
}
