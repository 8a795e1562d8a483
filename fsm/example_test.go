package fsm_test

import (
	"fmt"
	"log"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// The log is the clock: the instants come with the entries, and every replica reaches the same state.
func Example() {
	leader, follower := fsm.New(1), fsm.New(1)
	commit := func(atMs int64, c *fsmpb.Command) fsm.Applied {
		entry := &fsmpb.Entry{Version: fsm.CommandVersion, AtMs: atMs, Commands: []*fsmpb.Command{c}}
		data, err := entry.MarshalVT()
		if err != nil {
			log.Fatal(err)
		}
		if _, err := follower.Apply(data, false); err != nil {
			log.Fatal(err)
		}
		applied, err := leader.Apply(data, true)
		if err != nil {
			log.Fatal(err)
		}
		return applied
	}
	policy := &fsmpb.Policy{Window: 16, AttemptTimeoutMs: 30_000, MaxAttempts: 3}
	spec := &fsmpb.Spec{Target: &fsmpb.Target{Url: "https://shop.example/close"}}

	commit(1_000, &fsmpb.Command{Op: &fsmpb.Command_Takeover{Takeover: &fsmpb.Takeover{Origin: 7, Policy: policy}}})
	commit(1_000, &fsmpb.Command{Id: "order-1042-close", Op: &fsmpb.Command_Schedule{
		Schedule: &fsmpb.Schedule{Spec: spec, FireAtMs: 31_000, ReceivedAtMs: 1_000},
	}})
	due, _ := leader.Next()
	fmt.Println("the leader sleeps until", due)

	applied := commit(due, &fsmpb.Command{Op: &fsmpb.Command_Advance{
		Advance: &fsmpb.Advance{ToMs: due, Max: 100, Policy: policy},
	}})
	for _, grant := range applied.Grants {
		fmt.Println("granted:", grant.ID)
	}
	applied = commit(due, &fsmpb.Command{Id: "order-1042-close", Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}})
	fmt.Println("cancel:", applied.Results[0].Outcome)

	_, sum := leader.Hash()
	_, same := follower.Hash()
	fmt.Println("same state:", sum == same)
	// Output:
	// the leader sleeps until 31000
	// granted: order-1042-close
	// cancel: CANCEL_OUTCOME_STOPPED
	// same state: true
}
