package shard

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch"
)

// drawPolicies changes some of the policies and keeps the pointers of the others, as the control group does.
func drawPolicies(t *rapid.T, old []*fsmpb.QueuePolicy) []*fsmpb.QueuePolicy {
	policies := make(map[string]*fsmpb.QueuePolicy)
	for _, p := range old {
		policies[p.Queue] = p
	}
	for _, name := range rapid.SliceOfN(rapid.StringMatching("[a-f]"), 0, 6).Draw(t, "names") {
		if rapid.Bool().Draw(t, "delete") {
			delete(policies, name)
			continue
		}
		policies[name] = &fsmpb.QueuePolicy{
			Namespace: task.DefaultNamespace, Queue: name, Paused: rapid.Bool().Draw(t, "paused"),
			KeepDoneMs: rapid.Int64Range(0, 2).Draw(t, "keep"),
		}
	}
	var list []*fsmpb.QueuePolicy
	for _, p := range policies {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *fsmpb.QueuePolicy) int { return strings.Compare(a.Queue, b.Queue) })
	return list
}

// setAll applies rule changes as a machine does.
func setAll(rules map[string]*fsmpb.QueueRule, differences []*fsmpb.QueueRule) {
	for _, r := range differences {
		if proto.Equal(r, noRule(dispatch.QueueName{Namespace: r.Namespace, Queue: r.Queue})) {
			delete(rules, r.Queue)
		} else {
			rules[r.Queue] = r
		}
	}
}

// TestRulesFollowEveryChange checks that the rules follow any change of policies, and that no rule is set twice.
func TestRulesFollowEveryChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := make(map[string]*fsmpb.QueueRule)
		var old []*fsmpb.QueuePolicy
		for step := range 4 {
			policies := drawPolicies(t, old)
			differences := rulesChanged(old, policies)
			if step == 0 {
				differences = ruleDifferences(nil, policies)
			}
			for _, r := range differences {
				if proto.Equal(r, rules[r.Queue]) {
					t.Fatalf("%v is set already", r)
				}
			}
			setAll(rules, differences)
			for _, p := range policies {
				want := fsm.RuleOf(p)
				if proto.Equal(want, noRule(dispatch.QueueName{Namespace: want.Namespace, Queue: want.Queue})) {
					want = nil
				}
				if !proto.Equal(rules[p.Queue], want) {
					t.Fatalf("the rule of %v is %v", p, rules[p.Queue])
				}
			}
			for name := range rules {
				if !slices.ContainsFunc(policies, func(p *fsmpb.QueuePolicy) bool { return p.Queue == name }) {
					t.Fatalf("%s has a rule and no policy", name)
				}
			}
			old = policies
		}
	})
}

func TestMark(t *testing.T) {
	var m mark
	m.raise(3)
	early, late := m.reached(3), m.reached(5)
	same := m.reached(5)
	<-early
	m.raise(2)
	m.raise(4)
	select {
	case <-late:
		t.Error("5 is reached at 4")
	default:
	}
	m.raise(7)
	<-late
	<-same
	<-m.reached(1)
	if len(m.waiting) != 0 {
		t.Errorf("%d are still waited for", len(m.waiting))
	}
}

func BenchmarkOneOf4096PoliciesChanged(b *testing.B) {
	var old []*fsmpb.QueuePolicy
	for i := range 4096 {
		old = append(old, &fsmpb.QueuePolicy{Namespace: "default", Queue: fmt.Sprintf("q-%04d", i), Paused: true})
	}
	policies := slices.Clone(old)
	policies[2000] = &fsmpb.QueuePolicy{Namespace: "default", Queue: "q-2000"}
	for b.Loop() {
		if len(rulesChanged(old, policies)) != 1 {
			b.Fatal("not one")
		}
	}
}
