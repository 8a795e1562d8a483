package fsm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

func applyAll(t *testing.T, m *Machine, at int64, commands ...*fsmpb.Command) Applied {
	t.Helper()
	data, err := (&fsmpb.Entry{Version: CommandVersion, AtMs: at, Commands: commands}).MarshalVT()
	assert.NoError(t, err)
	applied, err := m.Apply(data, true)
	assert.NoError(t, err)
	return applied
}

func toLease(id string) *fsmpb.Command {
	return &fsmpb.Command{Id: id, Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{
		Spec: &fsmpb.Spec{Queue: "work"}, FireAtMs: 1000, ReceivedAtMs: 1000,
	}}}
}

func leaseAll(to int64, holder uint32) *fsmpb.Command {
	return &fsmpb.Command{Op: &fsmpb.Command_Advance{Advance: &fsmpb.Advance{
		ToMs: to, Max: 1 << 20, Policy: &fsmpb.Policy{MaxAttempts: 5},
		Credits: []*fsmpb.LaneCredit{{Lane: &fsmpb.Lane{Queue: "work"}, Grants: 1 << 20, LeaseMs: 60_000, Tag: 1, Holder: holder}},
	}}}
}

func settleGiven(g task.Grant, verdict fsmpb.Verdict) *fsmpb.Command {
	return &fsmpb.Command{Namespace: g.Namespace, Id: g.ID, Op: &fsmpb.Command_Settle{Settle: &fsmpb.Settle{
		Fence: g.Fence, Occurrence: g.Occurrence, Verdict: verdict, Consumer: true,
	}}}
}

// LiveLeases returns the running leases, and none that were settled, given back or replaced.
func TestGiven(t *testing.T) {
	m := New(1)
	applied := applyAll(t, m, 1000, toLease("a"), toLease("b"), toLease("c"), toLease("d"), leaseAll(1000, 7))
	assert.MustEqual(t, len(applied.Grants), 4, "grants")
	a, b, c, d := applied.Grants[0], applied.Grants[1], applied.Grants[2], applied.Grants[3]
	applyAll(t, m, 1001, settleGiven(b, fsmpb.Verdict_VERDICT_DELIVERED), settleGiven(c, fsmpb.Verdict_VERDICT_RELEASED),
		&fsmpb.Command{Id: "a", Op: &fsmpb.Command_Extend{Extend: &fsmpb.Extend{
			Fence: a.Fence, Occurrence: a.Occurrence, LeaseMs: 90_000,
		}}}, toLease("d"))
	if got := m.LiveLeases(); len(got) != 1 || got[0].Holder != 7 || got[0].Fence != a.Fence || got[0].ID != "a" ||
		got[0].Occurrence != a.Occurrence || got[0].Lane != a.Lane {
		t.Errorf("given: %+v", got)
	}
	again := applyAll(t, m, 1002, leaseAll(1002, 8), &fsmpb.Command{Op: &fsmpb.Command_Grant{Grant: &fsmpb.Grant{
		Lane: &fsmpb.Lane{Queue: "work"}, Max: 10, Policy: &fsmpb.Policy{MaxAttempts: 5}, LeaseMs: 60_000, Tag: 2, Holder: 9,
	}}})
	got := m.LiveLeases()
	holders := map[string]uint32{}
	for _, g := range got {
		holders[g.ID] = g.Holder
	}
	if len(again.Grants) != 2 || len(got) != 3 || holders["a"] != 7 || holders["c"] != 9 || holders["d"] == 0 {
		t.Errorf("given: %+v", got)
	}
	if slices.ContainsFunc(got, func(g task.LiveLease) bool { return g.Fence == d.Fence }) {
		t.Error("the lease of a task that was replaced is still there")
	}
}

// LiveLeases keeps only the last leases, in their order. Leases without a holder take no room.
func TestGivenIsBounded(t *testing.T) {
	m := New(1)
	const givenKept, count = 4096, 4096 + 1000
	for i := range count {
		applyAll(t, m, 1000, toLease(fmt.Sprintf("t%d", i)), leaseAll(1000, 7))
		if i%100 == 0 {
			applyAll(t, m, 1000, toLease(fmt.Sprintf("unknown%d", i)), leaseAll(1000, 0))
		}
	}
	got := m.LiveLeases()
	if len(got) != givenKept || got[0].ID != fmt.Sprintf("t%d", count-givenKept) || got[givenKept-1].ID != fmt.Sprintf("t%d", count-1) {
		t.Errorf("%d given, from %v", len(got), got[0])
	}
}

// A grant reports whether its task had waited in its lane.
func TestGrantsOfWaitingTasks(t *testing.T) {
	m := New(1)
	prompt := applyAll(t, m, 1000, toLease("a"), leaseAll(1000, 7)).Grants
	late := applyAll(t, m, 1001, toLease("b"),
		&fsmpb.Command{Op: &fsmpb.Command_Advance{Advance: &fsmpb.Advance{ToMs: 1001, Max: 1 << 20}}},
		&fsmpb.Command{Op: &fsmpb.Command_Grant{Grant: &fsmpb.Grant{
			Lane: &fsmpb.Lane{Queue: "work"}, Max: 1, LeaseMs: 60_000, Tag: 2, Holder: 7,
		}}}).Grants
	if len(prompt) != 1 || prompt[0].Waited || len(late) != 1 || !late[0].Waited {
		t.Errorf("%+v, %+v", prompt, late)
	}
}
