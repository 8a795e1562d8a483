package cluster

import (
	"fmt"
	"slices"
	"testing"

	"github.com/belfryhq/belfry/cluster/replicas"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

func policiesOf(names ...string) (policies []*fsmpb.QueuePolicy) {
	for _, name := range names {
		policies = append(policies, &fsmpb.QueuePolicy{Queue: name})
	}
	return policies
}

func countsOf(names ...string) (counts []*fsmpb.QueueCounts) {
	for _, name := range names {
		counts = append(counts, &fsmpb.QueueCounts{Queue: name, Ready: 1})
	}
	return counts
}

func TestPoliciesAndCountsAreJoined(t *testing.T) {
	for _, c := range []struct {
		policies, counts, want []string
	}{
		{nil, nil, nil},
		{[]string{"a"}, nil, []string{"a policy 0"}},
		{nil, []string{"a"}, []string{"a tasks 1"}},
		{[]string{"a", "c", "e"}, []string{"b", "c", "d"},
			[]string{"a policy 0", "b tasks 1", "c policy 1", "d tasks 1", "e policy 0"}},
	} {
		var got []string
		for _, q := range join(policiesOf(c.policies...), countsOf(c.counts...)) {
			kind := "tasks"
			if q.Policy != nil {
				kind = "policy"
			}
			if q.Policy != nil && q.Policy.Queue != q.Counts.Queue {
				t.Errorf("%v has the counts of %v", q.Policy, q.Counts)
			}
			got = append(got, fmt.Sprint(q.Counts.Queue, " ", kind, " ", q.Counts.Ready))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v and %v: %v", c.policies, c.counts, got)
		}
	}
}

// However many queues callers create, the list is bounded, and has every queue with a policy.
func TestListedQueuesAreBounded(t *testing.T) {
	const most = replicas.MaxUnnamed
	var names []string
	for i := range 3 * most {
		names = append(names, fmt.Sprintf("q-%06d", i))
	}
	all := join(policiesOf(names[1], names[2*most], "z"), countsOf(names...))
	last := func(q task.Queue) bool { return q.Counts.Queue == "z" && q.Policy != nil }
	if len(all) != most+3 || !slices.ContainsFunc(all, last) {
		t.Errorf("%d queues are listed", len(all))
	}
}
