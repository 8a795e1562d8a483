package check

import (
	"fmt"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// story builds a history by hand. Its instants are milliseconds from an arbitrary start.
type story struct {
	h  history.History
	op int64
}

// ms converts a story's milliseconds to an instant.
func ms(n int64) history.Instant {
	return history.Instant(n+1_000_000) * history.Instant(time.Millisecond)
}

const firstShard = 1

// call adds a call, as the story's next operation unless its number is set, and returns the recorded call.
func (s *story) call(c history.Call, start, end int64, outcome history.Outcome, a history.Answer) *history.Call {
	if c.Op == 0 {
		s.op++
		c.Op = s.op
	}
	c.Start, c.Outcome, c.Answer = ms(start), outcome, a
	if end > 0 {
		c.End = ms(end)
	}
	if c.Node == "" {
		c.Node = "node-1"
	}
	if outcome == history.OK && c.Answer.Shard == 0 {
		c.Answer.Shard = firstShard
	}
	s.h.Calls = append(s.h.Calls, c)
	return &s.h.Calls[len(s.h.Calls)-1]
}

// schedule adds an acknowledged schedule.
func (s *story) schedule(id string, start, due int64) *history.Call {
	return s.scheduleAs(id, start, start+5, due, history.OK)
}

func (s *story) scheduleAs(id string, start, end, due int64, outcome history.Outcome) *history.Call {
	c := history.Call{Kind: history.Schedule, ID: id, Ask: history.Ask{FireAt: ms(due)}}
	c.Ask.Body = body(s.op + 1)
	a := history.Answer{}
	if outcome == history.OK {
		a = history.Answer{Revision: uint64(start) + 1, State: "scheduled", FireAt: ms(due), Wrote: s.op + 1, Body: c.Ask.Body}
	}
	return s.call(c, start, end, outcome, a)
}

// batched adds an acknowledged schedule of a batch. Its answer holds only a status and a revision.
func (s *story) batched(id string, start, due int64) {
	c := s.schedule(id, start, due)
	c.Batch, c.Answer = true, history.Answer{Status: created, Revision: c.Answer.Revision}
}

// neighbour returns another id that falls on the slot of id.
func neighbour(id string) string {
	for i := 0; ; i++ {
		if other := fmt.Sprintf("%s-%d", id, i); history.SlotOf(other) == history.SlotOf(id) {
			return other
		}
	}
}

// patch adds a patch that changes the task's due time and gives it the body of operation op, which is the patch's own.
func (s *story) patch(id string, start, op int64) *history.Call {
	c := history.Call{Kind: history.Patch, ID: id, Ask: history.Ask{Delay: time.Millisecond, Body: body(op)}}
	return s.call(c, start, start+2, history.OK, history.Answer{})
}

func (s *story) cancel(id string, start int64, answer string) *history.Call {
	c := history.Call{Kind: history.Cancel, ID: id}
	return s.call(c, start, start+5, history.OK, history.Answer{Cancel: answer, Revision: uint64(start) + 1})
}

func (s *story) get(id string, start int64, state string, revision uint64, wrote int64) *history.Call {
	c := history.Call{Kind: history.Get, ID: id}
	a := history.Answer{State: state, Revision: revision, Wrote: wrote, FireAt: ms(start + 1000)}
	return s.call(c, start, start+2, history.OK, a)
}

func (s *story) absent(id string, start int64) {
	s.call(history.Call{Kind: history.Get, ID: id}, start, start+2, history.Failed, history.Answer{Status: notFound})
}

// stale adds a final read of one node's replica.
func (s *story) stale(id, node, state string, revision uint64) {
	c := history.Call{Kind: history.Stale, ID: id, Node: node, Final: true}
	s.call(c, 9000, 9001, history.OK, history.Answer{State: state, Revision: revision})
}

// arrive adds an attempt, answered 200, of the task that operation op scheduled.
func (s *story) arrive(id string, at, due, op int64) *history.Arrival {
	s.h.Arrivals = append(s.h.Arrivals, history.Arrival{
		At: ms(at), ID: id, WebhookID: fmt.Sprintf("w%d", op), Attempt: 1, Fence: uint64(at), Due: ms(due),
		Wrote: op, Body: body(op), Answer: 200,
	})
	return &s.h.Arrivals[len(s.h.Arrivals)-1]
}

// arrived schedules the task a for the instant 100, and adds its attempt at 101.
func (s *story) arrived() *history.Arrival {
	s.schedule("a", 0, 100)
	return s.arrive("a", 101, 100, 1)
}

func (s *story) fault(kind string, struck, mending, mended int64) {
	s.h.Faults = append(s.h.Faults, history.Fault{Kind: kind, Nodes: []string{"node-1"}, Shards: []uint32{firstShard},
		Struck: ms(struck), Mending: ms(mending), Mended: ms(mended)})
}

// stop adds a restart of a node that is asked to stop.
func (s *story) stop(struck, mending, mended int64) {
	s.fault("restart of a node", struck, mending, mended)
	s.h.Faults[len(s.h.Faults)-1].Asked = true
}

// clock adds a fault that set a node's clock off by the given milliseconds.
func (s *story) clock(by, struck, mended int64) {
	s.h.Faults = append(s.h.Faults, history.Fault{
		Kind: "clock", Skew: time.Duration(by) * time.Millisecond, Struck: ms(struck), Mending: ms(mended), Mended: ms(mended),
	})
}

func (s *story) term(term uint64, before, at int64) {
	s.h.Terms = append(s.h.Terms, history.Term{Shard: firstShard, Term: term, Before: ms(before), At: ms(at)})
}

// ledBy sets the leaders of the terms that were added.
func (s *story) ledBy(nodes ...string) {
	for i, node := range nodes {
		s.h.Terms[i].Leader = node
	}
}

// lastSeen adds the last sight of a term.
func (s *story) lastSeen(term uint64, at int64) { s.term(term, at, at+100) }

func (s *story) replica(node string, applied uint64, hash string) {
	s.h.Replicas = append(s.h.Replicas, history.Replica{Shard: firstShard, Node: node, Applied: applied, Hash: hash})
}

func body(op int64) uint64 { return uint64(op) + 1<<32 }

// lease adds a lease of the task that operation op scheduled. Its consumer asked five milliseconds before.
func (s *story) lease(id string, at, ends, op int64) *history.Arrival {
	s.h.Arrivals = append(s.h.Arrivals, history.Arrival{
		At: ms(at), ID: id, WebhookID: fmt.Sprintf("w%d", op), Attempt: 1, Fence: uint64(at), Due: ms(100),
		Wrote: op, Body: body(op), Pulled: true, Shard: firstShard, Asked: ms(at - 5), LeaseEnds: ms(ends),
	})
	return &s.h.Arrivals[len(s.h.Arrivals)-1]
}

// leased schedules the task a for the instant 100, and adds its lease from 101 to 1101.
func (s *story) leased() *history.Arrival {
	s.schedule("a", 0, 100)
	return s.lease("a", 101, 1101, 1)
}

// settle adds an answered call about the lease with the given fence.
func (s *story) settle(kind history.Kind, id string, fence uint64, start int64, status int) *history.Call {
	c := history.Call{Kind: kind, ID: id, Ask: history.Ask{Fence: fence}}
	outcome := history.OK
	if status != 200 {
		outcome = history.Failed
	}
	return s.call(c, start, start+5, outcome, history.Answer{Status: status})
}

// replaced adds a settle whose answer is that the task was scheduled anew.
func (s *story) replaced(kind history.Kind, id string, fence uint64, start int64) *history.Call {
	c := history.Call{Kind: kind, ID: id, Ask: history.Ask{Fence: fence}}
	return s.call(c, start, start+5, history.Failed, history.Answer{Status: 200, Replaced: true})
}

// unsettled adds a call about a lease, without an answer.
func (s *story) unsettled(kind history.Kind, id string, fence uint64, start int64) *history.Call {
	c := history.Call{Kind: kind, ID: id, Ask: history.Ask{Fence: fence}}
	return s.call(c, start, 0, history.Unknown, history.Answer{})
}
