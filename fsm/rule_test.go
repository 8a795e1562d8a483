package fsm

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

func TestRuleOf(t *testing.T) {
	for _, c := range []struct {
		policy *fsmpb.QueuePolicy
		want   *fsmpb.QueueRule
	}{
		{&fsmpb.QueuePolicy{}, &fsmpb.QueueRule{Namespace: "default", Queue: "default"}},
		{
			&fsmpb.QueuePolicy{
				Namespace: "n", Queue: "q", Target: &fsmpb.Target{Url: "http://x/", TimeoutMs: 7},
				Retry: &fsmpb.Retry{MaxAttempts: 3}, KeepDoneMs: 4, KeepDeadMs: 5,
			},
			&fsmpb.QueueRule{Namespace: "n", Queue: "q", Pushed: true, AttemptTimeoutMs: 7, MaxAttempts: 3, KeepDoneMs: 4, KeepDeadMs: 5},
		},
		{
			&fsmpb.QueuePolicy{Queue: "q", Retry: &fsmpb.Retry{DelaysMs: []int64{1, 2}}},
			&fsmpb.QueueRule{Namespace: "default", Queue: "q", MaxAttempts: 3},
		},
		{
			&fsmpb.QueuePolicy{Queue: "q", Retry: &fsmpb.Retry{DelaysMs: []int64{1, 2}, MaxAttempts: 2}},
			&fsmpb.QueueRule{Namespace: "default", Queue: "q", MaxAttempts: 2},
		},
		{&fsmpb.QueuePolicy{Queue: "q", Paused: true}, &fsmpb.QueueRule{Namespace: "default", Queue: "q", Held: true}},
		{&fsmpb.QueuePolicy{Queue: "q", MaxInFlight: 1}, &fsmpb.QueueRule{Namespace: "default", Queue: "q", Held: true}},
		{&fsmpb.QueuePolicy{Queue: "q", MaxPerSecond: 0.1}, &fsmpb.QueueRule{Namespace: "default", Queue: "q", Held: true}},
	} {
		if got := RuleOf(c.policy); !proto.Equal(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.policy, got, c.want)
		}
	}
}
