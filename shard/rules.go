package shard

import (
	"cmp"
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/shard/dispatch"
)

// Policies gives access to the policies of the cluster's queues and to its calendars, as far as this node knows them.
// Its methods are called often.
type Policies interface {
	// Policy returns a queue's policy, or nil if it has none. The caller must neither change it nor log its secrets. A
	// policy whose secrets cannot be opened here is sealed.
	Policy(namespace, queue string) *fsmpb.QueuePolicy
	// Calendar returns a calendar with its version, which is 0 if there is none.
	Calendar(namespace, name string) (*calendar.Calendar, uint64)
	CalendarVersion(namespace, name string) uint64
	// Watch returns all policies and a channel that is closed when there may be newer ones.
	Watch() (Policed, <-chan struct{})
}

// Policed is the set of all queues' policies at one version.
type Policed struct {
	Queues  []*fsmpb.QueuePolicy // sorted by namespace and queue; read-only, with its elements
	Version uint64               // rises with every change, of calendars too
	// Known is false from a start until this node has learned the changes made while it was away. Until then the
	// policies may be old or missing: the leader changes no rule because of them, and a queue that the shard's rules
	// hold stays held.
	Known bool
}

// noPolicies is the Policies of a cluster whose queues have none.
type noPolicies struct{}

func (noPolicies) Policy(string, string) *fsmpb.QueuePolicy { return nil }
func (noPolicies) Watch() (Policed, <-chan struct{})        { return Policed{Known: true}, nil }
func (noPolicies) CalendarVersion(string, string) uint64    { return 0 }

func (noPolicies) Calendar(string, string) (*calendar.Calendar, uint64) { return nil, 0 }

// maxRules is the number of rules that one entry sets at most.
const maxRules = 256

// keepRules makes the shard's rules follow the queues' policies until the leadership ends.
func (l *leadership) keepRules(ctx context.Context) {
	s := l.shard
	var of []*fsmpb.QueuePolicy // the policies that the rules follow, once known
	known := false
	for {
		policed, changed := s.cfg.Policies.Watch()
		held := l.heldUnknown()
		l.proposer.intake.tell(func(p *dispatch.Planner, now time.Time) { p.Policies(now, held) })
		if policed.Known {
			l.extender.look() // a calendar may have changed
			differences := rulesChanged(of, policed.Queues)
			if !known {
				differences = ruleDifferences(s.machine.Rules(), policed.Queues)
			}
			if !l.setRules(ctx, differences) {
				return
			}
			of, known = policed.Queues, true
			l.proposer.intake.tell(func(*dispatch.Planner, time.Time) { l.inForce.raise(policed.Version) })
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// setRules applies rules, at most maxRules in an entry. It returns false if the leadership ends first.
func (l *leadership) setRules(ctx context.Context, rules []*fsmpb.QueueRule) bool {
	for len(rules) > 0 {
		n := min(len(rules), maxRules)
		select {
		case <-l.proposer.intake.requestRules(rules[:n]):
		case <-ctx.Done():
			return false
		}
		rules = rules[n:]
	}
	return true
}

// ruleDifferences returns the changes that turn rules into the rules of policies.
func ruleDifferences(rules []*fsmpb.QueueRule, policies []*fsmpb.QueuePolicy) []*fsmpb.QueueRule {
	have := make(map[dispatch.QueueName]*fsmpb.QueueRule, len(rules))
	for _, r := range rules {
		have[dispatch.QueueName{Namespace: r.Namespace, Queue: r.Queue}] = r
	}
	var differences []*fsmpb.QueueRule
	for _, p := range policies {
		want := fsm.RuleOf(p)
		name := dispatch.QueueName{Namespace: want.Namespace, Queue: want.Queue}
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
		if name := (dispatch.QueueName{Namespace: r.Namespace, Queue: r.Queue}); have[name] != nil {
			differences = append(differences, noRule(name))
		}
	}
	return differences
}

// rulesChanged is ruleDifferences for rules that follow the older policies old. An unchanged policy is the same pointer
// in both lists, so that one change among thousands of policies costs little more than a walk over the lists.
func rulesChanged(old, policies []*fsmpb.QueuePolicy) []*fsmpb.QueueRule {
	var gone, come []*fsmpb.QueuePolicy
	for len(old)+len(policies) > 0 {
		switch order := compareFirst(old, policies); {
		case order < 0:
			gone, old = append(gone, old[0]), old[1:]
		case order > 0:
			come, policies = append(come, policies[0]), policies[1:]
		default:
			if old[0] != policies[0] {
				gone, come = append(gone, old[0]), append(come, policies[0])
			}
			old, policies = old[1:], policies[1:]
		}
	}
	rules := make([]*fsmpb.QueueRule, 0, len(gone))
	for _, p := range gone {
		rules = append(rules, fsm.RuleOf(p))
	}
	return ruleDifferences(rules, come)
}

// compareFirst compares the names of the first policies of two lists. An empty list orders last; at most one is empty.
func compareFirst(a, b []*fsmpb.QueuePolicy) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	default:
		return cmp.Or(cmp.Compare(a[0].Namespace, b[0].Namespace), cmp.Compare(a[0].Queue, b[0].Queue))
	}
}

// noRule returns the rule that removes a queue's rule.
func noRule(name dispatch.QueueName) *fsmpb.QueueRule {
	return &fsmpb.QueueRule{Namespace: name.Namespace, Queue: name.Queue}
}

// heldUnknown returns the queues that the shard's rules hold while the node does not know the newest policies, and nil
// once it knows them.
func (l *leadership) heldUnknown() map[dispatch.QueueName]bool {
	s := l.shard
	if policed, _ := s.cfg.Policies.Watch(); policed.Known {
		return nil
	}
	held := map[dispatch.QueueName]bool{}
	for _, r := range s.machine.Rules() {
		if r.Held {
			held[dispatch.QueueName{Namespace: r.Namespace, Queue: r.Queue}] = true
		}
	}
	return held
}

// AwaitRules returns once this shard follows the policies of this version or a later one. It returns nil on a replica
// that does not lead or stops leading: the next leader begins with the policies that its node knows.
func (s *Shard) AwaitRules(ctx context.Context, version uint64) error {
	l := s.current()
	if l == nil {
		return nil
	}
	select {
	case <-l.inForce.reached(version):
		return nil
	case <-l.ctx.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// mark is a rising number that goroutines can wait for. The zero value is ready for use.
type mark struct {
	mu      sync.Mutex
	at      uint64
	waiting map[uint64]chan struct{}
}

func (m *mark) raise(to uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = max(m.at, to)
	for n, ch := range m.waiting {
		if n <= m.at {
			close(ch)
			delete(m.waiting, n)
		}
	}
}

// reached returns a channel that is closed once the mark is at n or above.
func (m *mark) reached(n uint64) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	ch, ok := m.waiting[n]
	if ok {
		return ch
	}
	ch = make(chan struct{})
	if m.at >= n {
		close(ch)
		return ch
	}
	if m.waiting == nil {
		m.waiting = make(map[uint64]chan struct{})
	}
	m.waiting[n] = ch
	return ch
}
