package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

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

// keyedCall returns a call that wants the full answer. Its key comes from its verb and line.
func keyedCall(verb, line string) *fsmpb.Command {
	a := arguments(line)
	c := &fsmpb.Command{Id: a.id, Answer: fsmpb.Answer_ANSWER_FULL}
	c.Key = &fsmpb.Key{Hash: hashOf(verb), Call: hashOf(verb + line)}
	setOp(c, verb, a, 1000)
	return c
}

func applyOne(t *testing.T, m *Machine, c *fsmpb.Command) *fsmpb.Result {
	t.Helper()
	data, err := proto.Marshal(&fsmpb.Entry{Version: CommandVersion, AtMs: 1000, Commands: []*fsmpb.Command{c}})
	assert.NoError(t, err)
	return applyBytes(t, m, data).Results[0]
}

// A repeat gets exactly the answer of the first call, however the task has changed since.
func TestRepeatedAnswers(t *testing.T) {
	// retrying takes a task to its second attempt. The first attempt failed with the error in failed.
	const retrying = "takeover origin=5\nschedule a at=900 url=http://x/ payload=p\nadvance to=1000"
	const failed = "settle a verdict=retry retry_at=5000 error=refused"
	for name, c := range map[string]struct{ before, call, after string }{
		"schedule, then another": {
			"takeover origin=5", "schedule a at=2000 url=http://x/ payload=p", "schedule a at=3000 url=http://y/",
		},
		"schedule over another, then another": {
			"takeover origin=5\nschedule a at=2000", "schedule a at=2000 url=http://x/", "schedule a at=3000",
		},
		"touch, then a schedule like it": {
			"takeover origin=5\nschedule a at=2000 delay=10", "touch a delay=100", "schedule a at=3000",
		},
		"touch, then fire": {
			"takeover origin=5\nschedule a at=2000 delay=10", "touch a delay=100", "fire a",
		},
		"patch, then fire": {
			"takeover origin=5\nschedule a at=2000 delay=10", "patch a at=5000", "fire a",
		},
		"fire, then an attempt": {
			"takeover origin=5\nschedule a at=2000 payload=p", "fire a", "advance to=1000",
		},
		"fire between attempts, then an attempt": {
			retrying + "\n" + failed, "fire a", "advance to=1000",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{t: t, m: New(1), now: 1000}
			for _, line := range strings.Split(c.before, "\n") {
				s.block(line)
			}
			verb, rest, _ := strings.Cut(c.call, " ")
			first := applyOne(t, s.m, keyedCall(verb, rest))
			s.block(c.after)
			m := restored(t, s.m)
			again := applyOne(t, m, keyedCall(verb, rest))
			if !again.Repeated {
				t.Error("not taken for a repeat")
			}
			again.Repeated = false
			ignored := protocmp.IgnoreFields(&fsmpb.Task{}, "fence") // no caller sees the fence
			assert.Equal(t, cmp.Diff(first, again, protocmp.Transform(), ignored), "", "(- first, + again)")
		})
	}
}

// TestNamespaceUse checks that each namespace counts its own tasks, bytes and queues, up and down.
func TestNamespaceUse(t *testing.T) {
	m := New(1)
	schedule := func(namespace, queue string, n int) {
		entry := &fsmpb.Entry{Version: CommandVersion, AtMs: 1000}
		for i := range n {
			c := scheduleCommand(fmt.Sprintf("%s-%d", queue, i), 1_000_000)
			c.Namespace, c.GetSchedule().Spec = namespace, &fsmpb.Spec{Queue: queue, Payload: make([]byte, 1000)}
			entry.Commands = append(entry.Commands, c)
		}
		applyBytes(t, m, mustMarshal(entry))
	}
	expect := func(namespace string, pending, queues uint64) {
		t.Helper()
		use := m.NamespaceUse(namespace)
		if use.Pending != pending || use.Queues != queues || use.Dead != 0 {
			t.Errorf("%s: %+v", namespace, use)
		}
		if use.Bytes < 1000*pending || use.Bytes > 1300*pending {
			t.Errorf("%s: %d bytes of %d tasks", namespace, use.Bytes, pending)
		}
	}
	expect("", 0, 0)
	schedule("", "", 3)
	schedule("", "q", 2)
	schedule("other", "q", 4)
	schedule("other", "q", 4) // replaces them
	expect("", 5, 2)
	expect(task.DefaultNamespace, 5, 2)
	expect("other", 4, 1)
	expect("third", 0, 0)
	entry := &fsmpb.Entry{Version: CommandVersion, AtMs: 1000}
	for i := range 4 {
		entry.Commands = append(entry.Commands, &fsmpb.Command{
			Namespace: "other", Id: fmt.Sprintf("q-%d", i), Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}})
	}
	applyBytes(t, m, mustMarshal(entry))
	expect("other", 0, 1) // the tombstones keep the queue
	expect("", 5, 2)
}

// TestNamespaceUseCountsAllParts checks that the bytes of a namespace contain all that its tasks hold, whether tasks
// share a value or not, and that nothing is left when they are gone.
func TestNamespaceUseCountsAllParts(t *testing.T) {
	const tasks = 20
	long := strings.Repeat("x", 255)
	for name, specOf := range map[string]func(i int) *fsmpb.Spec{
		"a URL": func(i int) *fsmpb.Spec {
			return &fsmpb.Spec{Target: &fsmpb.Target{Url: fmt.Sprintf("http://h/%d/%s", i, long)}}
		},
		"one URL": func(int) *fsmpb.Spec { return &fsmpb.Spec{Target: &fsmpb.Target{Url: "http://h/" + long}} },
		"a header": func(i int) *fsmpb.Spec {
			return &fsmpb.Spec{Target: &fsmpb.Target{Url: "http://h/", Headers: []*fsmpb.Header{{Name: "x-a", Value: fmt.Sprint(i, long)}}}}
		},
		"a claim": func(i int) *fsmpb.Spec {
			jwt := &fsmpb.Jwt{Audience: "a", Claims: fmt.Appendf(nil, `{"a":"%d%s"}`, i, long)}
			return &fsmpb.Spec{Target: &fsmpb.Target{Url: "http://h/", Auth: &fsmpb.Auth{Jwt: jwt}}}
		},
		"a label": func(i int) *fsmpb.Spec {
			return &fsmpb.Spec{Labels: []*fsmpb.Label{{Name: fmt.Sprint("l", i), Value: long}}}
		},
		"one label":      func(int) *fsmpb.Spec { return &fsmpb.Spec{Labels: []*fsmpb.Label{{Name: "l", Value: long}}} },
		"a content type": func(i int) *fsmpb.Spec { return &fsmpb.Spec{ContentType: fmt.Sprint("a/b;c=", i, long[:240])} },
		"a payload":      func(int) *fsmpb.Spec { return &fsmpb.Spec{Payload: []byte(long)} },
	} {
		m := New(1)
		all := func(op func(i int, c *fsmpb.Command)) {
			entry := &fsmpb.Entry{Version: CommandVersion, AtMs: 1000}
			for i := range tasks {
				c := scheduleCommand(fmt.Sprint("t", i), 1_000_000)
				op(i, c)
				entry.Commands = append(entry.Commands, c)
			}
			applyBytes(t, m, mustMarshal(entry))
		}
		for range 2 { // the second time replaces the tasks
			all(func(i int, c *fsmpb.Command) { c.GetSchedule().Spec = specOf(i) })
			for _, replica := range []*Machine{m, restored(t, m)} {
				if bytes := replica.NamespaceUse("").Bytes; bytes < tasks*(task.RecordBytes+240) || bytes > tasks*(task.RecordBytes+400) {
					t.Errorf("%s: %d bytes", name, bytes)
				}
			}
		}
		all(func(_ int, c *fsmpb.Command) { c.Op = &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}} })
		if bytes := m.NamespaceUse("").Bytes; bytes != 0 {
			t.Errorf("%s: %d bytes are left", name, bytes)
		}
	}
}
