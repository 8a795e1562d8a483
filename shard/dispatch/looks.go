package dispatch

import "github.com/belfryhq/belfry/fsm/task"

// looks holds the consumers' open questions whether a task is there for them, one per lane.
type looks struct {
	lanes []task.Lane         // in the order of their first questions
	since map[task.Lane]int64 // instants of the questions in Unix milliseconds; unset until the next Empty
}

// unset is the instant of a question that no entry has followed yet.
const unset = -1

// Look records a consumer's question whether a task of a lane is there. The question counts from the next call of
// Empty.
func (p *Planner) Look(lane task.Lane) {
	if p.looks.since == nil {
		p.looks.since = map[task.Lane]int64{}
	}
	if _, open := p.looks.since[lane]; !open {
		p.looks.lanes = append(p.looks.lanes, lane)
	}
	p.looks.since[lane] = unset
}

// Empty returns the lanes whose consumers can be told that no task is there, and closes their questions. nowMs is the
// leader's clock in Unix milliseconds, and nextMs the earliest instant for which a task still waits in the wheel. A
// question is answered once the wheel has popped all tasks that were due when it was asked, and none of them waits in
// the lane for the next entry. Tasks of a paused queue do not count.
func (p *Planner) Empty(nowMs, nextMs int64) (empty []task.Lane) {
	open := p.looks.lanes[:0]
	for _, lane := range p.looks.lanes {
		since := p.looks.since[lane]
		if since == unset {
			since = nowMs
			p.looks.since[lane] = since
		}
		if nextMs <= since || p.willGrant(lane) {
			open = append(open, lane)
			continue
		}
		delete(p.looks.since, lane)
		empty = append(empty, lane)
	}
	p.looks.lanes = open
	return empty
}

// Waiting returns the number of tasks that wait in a receiver's lane, with those of its groups.
func (p *Planner) Waiting(receiver task.Lane) int {
	if l := p.lanes[receiver]; l != nil {
		return l.waiting()
	}
	return 0
}

// willGrant reports whether a later entry grants the tasks now waiting in a lane that has consumers.
func (p *Planner) willGrant(key task.Lane) bool {
	l := p.lanes[key]
	if l == nil || !l.Pulled || !l.isAsked() || l.queue.isShut() {
		return false
	}
	return l.Ready > 0 || l.waiting() > 0 && p.inquiries.mayHear(l.queue)
}
