package shard

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// maxRules is how many rules one entry sets.
const maxRules = 256

// keepRules has the shard's rules follow the queues' policies until the leadership ends.
func (l *leadership) keepRules(ctx context.Context) {
	s := l.shard
	for {
		policed, changed := s.cfg.Policies.Watch()
		held := s.heldUnknown()
		l.proposer.queue.tell(func(b *book) { b.policiesChanged(held) })
		if policed.Known {
			if !l.setRules(ctx, ruleDifferences(s.machine.Rules(), policed.Queues)) {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// setRules has rules applied, a bounded number in an entry. It returns false when the leadership has ended.
func (l *leadership) setRules(ctx context.Context, rules []*fsmpb.QueueRule) bool {
	for len(rules) > 0 {
		n := min(len(rules), maxRules)
		select {
		case <-l.proposer.queue.requestRules(rules[:n]):
		case <-ctx.Done():
			return false
		}
		rules = rules[n:]
	}
	return true
}

// ruleDifferences returns what must be set for rules to be those of the policies.
func ruleDifferences(rules []*fsmpb.QueueRule, policies []*fsmpb.QueuePolicy) []*fsmpb.QueueRule {
	have := make(map[queueName]*fsmpb.QueueRule, len(rules))
	for _, r := range rules {
		have[queueName{r.Namespace, r.Queue}] = r
	}
	var differences []*fsmpb.QueueRule
	for _, p := range policies {
		want := fsm.RuleOf(p)
		name := queueName{want.Namespace, want.Queue}
		is, ok := have[name]
		if !ok {
			is = noRule(name)
		}
		if !proto.Equal(is, want) {
			differences = append(differences, want)
		}
		delete(have, name)
	}
	for _, r := range rules {
		if name := (queueName{r.Namespace, r.Queue}); have[name] != nil {
			differences = append(differences, noRule(name))
		}
	}
	return differences
}

// noRule takes a queue's rule away.
func noRule(name queueName) *fsmpb.QueueRule {
	return &fsmpb.QueueRule{Namespace: name.namespace, Queue: name.queue}
}

// heldUnknown returns the queues that the shard's rules hold while it is not known what their policies are; nil if it
// is known.
func (s *Shard) heldUnknown() map[queueName]bool {
	if policed, _ := s.cfg.Policies.Watch(); policed.Known {
		return nil
	}
	held := map[queueName]bool{}
	for _, r := range s.machine.Rules() {
		if r.Held {
			held[queueName{r.Namespace, r.Queue}] = true
		}
	}
	return held
}
