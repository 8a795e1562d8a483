package replicas

import (
	"fmt"
	"slices"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// The names that a shard lists are bounded, however many queues callers make, and include every queue with a policy.
func TestListedNamesAreBounded(t *testing.T) {
	var names []string
	for i := range 3 * MaxUnnamed {
		names = append(names, fmt.Sprintf("q-%06d", i))
	}
	var policies []*fsmpb.QueuePolicy
	for _, name := range []string{names[1], names[2*MaxUnnamed], "z"} {
		policies = append(policies, &fsmpb.QueuePolicy{Queue: name})
	}
	got := listed(policies, slices.Clone(names))
	if len(got) != MaxUnnamed+2 || !slices.Contains(got, names[2*MaxUnnamed]) || !slices.IsSorted(got) {
		t.Errorf("%d of %d names are listed, up to %s", len(got), len(names), got[len(got)-1])
	}
}
