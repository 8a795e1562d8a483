package store

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// noRule is the rule of a queue without a rule. It is never written to.
var noRule = &fsmpb.QueueRule{}

// isEmptyRule reports whether a rule sets no field and so equals noRule.
func isEmptyRule(r *fsmpb.QueueRule) bool {
	return !r.Pushed && !r.Held && r.AttemptTimeoutMs == 0 && r.MaxAttempts == 0 && r.KeepDoneMs == 0 && r.KeepDeadMs == 0
}

// Rules returns copies of the rules of all queues that have one, sorted by namespace and queue, with names written
// out.
func (qs *Queues) Rules() []*fsmpb.QueueRule {
	rules := qs.allRules()
	for i, r := range rules {
		rules[i] = proto.CloneOf(r)
	}
	slices.SortFunc(rules, func(a, b *fsmpb.QueueRule) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Queue, b.Queue))
	})
	return rules
}

// allRules returns the stored rules in no particular order. The caller must not change them.
func (qs *Queues) allRules() []*fsmpb.QueueRule {
	rules := make([]*fsmpb.QueueRule, 0, qs.rules)
	for _, q := range qs.values {
		if q != nil && q.rule != noRule {
			rules = append(rules, q.rule)
		}
	}
	return rules
}

// SetRule makes r the rule of its queue. It moves no task: the queue and destination name a task's lane, and a begun
// attempt ends as it began.
func (s *Store) SetRule(r *fsmpb.QueueRule) {
	key := keyOfQueue(r.Namespace, r.Queue)
	q := s.mem.queues.acquire(key) // for the new rule
	before := q.rule
	if before != noRule {
		s.mem.queues.rulesSum -= digestRule(before)
		s.mem.queues.rules--
		s.mem.queues.release(q) // for the old rule
	}
	if isEmptyRule(r) {
		q.rule = noRule
		s.mem.queues.release(q)
	} else {
		q.rule = proto.CloneOf(r)
		q.rule.Namespace, q.rule.Queue = q.namespace, q.name
		s.mem.queues.rulesSum += digestRule(q.rule)
		s.mem.queues.rules++
	}
	if before.Pushed != q.rule.Pushed {
		s.Lanes.touchUntargeted(q)
	}
}

// touchUntargeted notes that the loads of the lanes of tasks without a target have changed, since they include Pulled.
func (ls *Lanes) touchUntargeted(q *queue) {
	for _, l := range ls.values {
		if l != nil && l.queue == q && l.Destination == "" {
			ls.touch(l)
		}
	}
}

func digestRule(r *fsmpb.QueueRule) uint64 { return xxhash.Sum64(mustMarshal(r)) }
