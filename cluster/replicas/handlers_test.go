package replicas

import (
	"fmt"
	"slices"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
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

// newOnly refuses commands about the namespace old.
type newOnly struct{}

func (newOnly) Admit(c *fsmpb.Command) error {
	if c.Namespace == "old" {
		return task.ErrNotProposed
	}
	return nil
}

// A refused command costs the others of its call nothing, and each gets its own reply.
func TestRefusedCommandsAreLeftOut(t *testing.T) {
	s := New(Config{Admission: newOnly{}})
	if got := s.refused([]*fsmpb.Command{{Id: "a"}, {Id: "b"}}); got != nil {
		t.Errorf("none is refused, and the replies are %v", got)
	}
	got := s.refused([]*fsmpb.Command{{Id: "a"}, {Namespace: "old", Id: "b"}, {Id: "c"}})
	if len(got) != 3 || got[0].Err != nil || got[1].Err == nil || got[2].Err != nil {
		t.Errorf("replies %v", got)
	}
	if got := New(Config{}).refused([]*fsmpb.Command{{Namespace: "old"}}); got != nil {
		t.Errorf("without a check: %v", got)
	}
}
