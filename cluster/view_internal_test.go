package cluster

import (
	"slices"
	"testing"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// The control group is shown as its leader reports it. Without the leader, the newest report counts.
func TestViewOfTheControlGroup(t *testing.T) {
	report := func(state, leader string, term uint64, voters ...string) *clusterpb.StatusReply {
		return &clusterpb.StatusReply{Replicas: []*clusterpb.ReplicaStatus{
			{State: state, Leader: leader, Term: term, Voters: voters},
		}}
	}
	reports := statuses{
		"a": report("follower", "c", 7, "a", "b"), "b": report("follower", "", 7, "a"), "d": nil,
		"c": report("leader", "c", 7, "c", "b", "a"), "e": report("leader", "e", 6, "e"),
	}
	got := viewControl(reports)
	if got.Leader != "c" || got.Term != 7 || !slices.Equal(got.Voters, []string{"a", "b", "c"}) {
		t.Errorf("%+v", got)
	}
	delete(reports, "c")
	if got = viewControl(reports); got.Leader != "c" || got.Term != 7 {
		t.Errorf("without the leader: %+v", got)
	}
	if got = viewControl(statuses{"d": nil}); got.Leader != "" || got.Term != 0 || len(got.Voters) > 0 {
		t.Errorf("without a report: %+v", got)
	}
}
