package shard

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

func TestBackoffBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		least := time.Duration(rapid.Int64Range(1, int64(task.MaxBackoff)).Draw(t, "least"))
		most := time.Duration(rapid.Int64Range(1, int64(task.MaxBackoff)).Draw(t, "most"))
		n := rapid.Uint32Range(1, 2000).Draw(t, "n")
		got := backoff(n, least, most, rapid.Float64Range(0, 0.999).Draw(t, "spread"))
		if got < least || got > max(least, most) {
			t.Errorf("backoff %v outside [%v, %v]", got, least, most)
		}
		if low := min(least<<min(n-1, 10), most/2); n <= 10 && low > 0 && got < low {
			t.Errorf("backoff %v after %d failures, at least %v expected", got, n, low)
		}
	})
}

func TestVerdict(t *testing.T) {
	const (
		dead, retry = fsmpb.Verdict_VERDICT_DEAD, fsmpb.Verdict_VERDICT_RETRY
		probed      = fsmpb.Verdict_VERDICT_PROBED
	)
	policy, now := defaultPolicy(), time.UnixMilli(1_000_000)
	for _, test := range []struct {
		name     string
		attempts uint32
		out      task.Outcome
		verdict  fsmpb.Verdict
		from, to time.Duration // the range of the retry's time
	}{
		{"success", 1, task.Outcome{Delivered: true}, fsmpb.Verdict_VERDICT_DELIVERED, 0, 0},
		{"first failure", 1, task.Outcome{Error: "500"}, retry, time.Second, 2 * time.Second},
		{"third failure", 3, task.Outcome{Error: "500"}, retry, 4 * time.Second, 8 * time.Second},
		{"the last", 10, task.Outcome{Error: "500"}, dead, 0, 0},
		{"gone", 1, task.Outcome{Error: "410", Permanent: true}, dead, 0, 0},
		{"later, please", 1, task.Outcome{Error: "429", RetryAfter: time.Minute}, retry, time.Minute, time.Minute},
		{"sooner, please", 3, task.Outcome{Error: "429", RetryAfter: time.Millisecond}, retry, 4 * time.Second, 8 * time.Second},
		{"the last, of a probe", 10, task.Outcome{Error: "500"}, probed, 300 * time.Second, 600 * time.Second},
		{"a probe that is refused", 10, task.Outcome{Error: "422", Refused: true}, dead, 0, 0},
		{"a probe that is gone", 1, task.Outcome{Error: "410", Permanent: true}, dead, 0, 0},
		{"next year", 1, task.Outcome{Error: "429", RetryAfter: 9000 * time.Hour}, retry, maxRetryAfter, maxRetryAfter},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := policy.verdict(&fsmpb.Task{Attempts: test.attempts}, policy.planOf(nil, nil), test.out, strings.Contains(test.name, "probe"), now)
			if s.Verdict != test.verdict || s.Error != test.out.Error {
				t.Errorf("%v", s)
			}
			if wait := time.UnixMilli(s.RetryAtMs).Sub(now); test.to > 0 && (wait < test.from || wait > test.to) {
				t.Errorf("retry after %v, want %v to %v", wait, test.from, test.to)
			}
		})
	}
}

func TestCutError(t *testing.T) {
	for _, text := range []string{"", "short", "bad \xff byte", strings.Repeat("é", task.MaxErrorBytes)} {
		got := cutError(text)
		if len(got) > task.MaxErrorBytes || strings.ToValidUTF8(got, "") != got {
			t.Errorf("%q", got)
		}
	}
}

// TestEntryEncoding checks that an entry assembled from parts equals protobuf's encoding of the whole.
func TestEntryEncoding(t *testing.T) {
	takeover := &fsmpb.Command{Op: &fsmpb.Command_Takeover{Takeover: &fsmpb.Takeover{Origin: 7}}}
	cmds := []*fsmpb.Command{schedule("a", time.UnixMilli(5)), cancelOf("b"), takeover}
	c, err := newCall(cmds[:2])
	assert.NoError(t, err)
	e := newEntry(time.UnixMilli(1234), 100)
	e.addFramed(c.bytes(0, 2), 2)
	assert.NoError(t, e.add(cmds[2]))
	var got fsmpb.Entry
	assert.NoError(t, proto.Unmarshal(e.data, &got))
	want := &fsmpb.Entry{Version: fsm.FirstVersion, AtMs: 1234, Commands: cmds}
	if !proto.Equal(&got, want) || e.commands != 3 {
		t.Errorf("%v, want %v", &got, want)
	}
}

// TestEntryHasTheVersionOfItsCommands checks that an entry has the highest of its commands' versions, and is otherwise
// unchanged by it.
func TestEntryHasTheVersionOfItsCommands(t *testing.T) {
	e := newEntry(time.UnixMilli(1234), 100)
	assert.NoError(t, e.add(cancelOf("a")))
	for _, version := range []uint32{fsm.FirstVersion, 3, 2} {
		e.raise(version)
	}
	var got fsmpb.Entry
	assert.NoError(t, got.UnmarshalVTUnsafe(e.data))
	if want := (&fsmpb.Entry{Version: 3, AtMs: 1234, Commands: []*fsmpb.Command{cancelOf("a")}}); !proto.Equal(&got, want) {
		t.Errorf("%v, want %v", &got, want)
	}
}

func TestHorizon(t *testing.T) {
	for _, test := range []struct{ p99, want time.Duration }{
		{0, 10 * time.Millisecond}, {2 * time.Millisecond, 10 * time.Millisecond},
		{10 * time.Millisecond, 21 * time.Millisecond}, {time.Second, 50 * time.Millisecond},
	} {
		l := newLatencies()
		for range 256 {
			l.add(test.p99)
		}
		assert.Equal(t, l.horizon(), test.want, "p99 %v: horizon", test.p99)
	}
}

func call1(t *testing.T, payload int, n int) *call {
	t.Helper()
	cmds := make([]*fsmpb.Command, n)
	for i := range cmds {
		cmds[i] = schedule(fmt.Sprint(i), time.UnixMilli(5))
		cmds[i].GetSchedule().Spec.Payload = make([]byte, payload)
	}
	c, err := newCall(cmds)
	assert.NoError(t, err)
	return c
}

// TestQueueBounds checks that entries are bounded in commands and bytes, that the largest command goes alone, that
// users' calls are refused over the limit, and that the leader's own commands never are.
func TestQueueBounds(t *testing.T) {
	q := newIntake(1<<20, nil)
	q.requestTakeover()
	first := call1(t, 256<<10, 1)
	calls := []*call{first, call1(t, 10, 3000), call1(t, 1000, 200)}
	for _, c := range calls {
		assert.NoError(t, q.enqueue(c, nil))
	}
	for range 2000 {
		q.settle(settle{framed: make([]byte, 50)})
	}
	assert.ErrorIs(t, q.enqueue(call1(t, 256<<10, 4), nil), task.ErrOverloaded, "over the limit")
	taken := 0
	for w := q.tryTake(); w != nil; w = q.tryTake() {
		commands := len(w.settles)
		for _, s := range w.segments {
			commands += s.n
			taken += s.n
		}
		alone := len(w.segments) == 1 && w.segments[0].n == 1
		if commands > maxEntryCommands || w.bytes > maxEntryBytes && !alone {
			t.Fatalf("entry of %d commands and %d bytes", commands, w.bytes)
		}
	}
	if taken != 3201 || q.pendingBytes() != 0 {
		t.Errorf("%d commands taken, %d bytes left", taken, q.pendingBytes())
	}
	assert.Equal(t, q.enqueue(call1(t, 256<<10, 8), nil), nil, "a call over the limit, with nothing else waiting")
}

// TestLargeCallsTakeTurns checks that a call of many or large commands does not delay a later call, and gets whole
// entries when it is alone.
func TestLargeCallsTakeTurns(t *testing.T) {
	for name, large := range map[string]*call{"many": call1(t, 10, 5000), "large": call1(t, 50<<10, 100)} {
		q := newIntake(1<<30, nil)
		q.requestTakeover()
		small := call1(t, 100, 1)
		for _, c := range []*call{large, small} {
			assert.NoError(t, q.enqueue(c, nil))
		}
		w := q.tryTake()
		assert.Equal(t, small.taken, 1, "%s: the later call waits for the second entry", name)
		if n := large.taken; n+1 < maxEntryCommands && w.bytes < maxEntryBytes/2 {
			t.Errorf("%s: %d of its commands in an entry of %d bytes", name, n, w.bytes)
		}
		before := large.taken
		if w = q.tryTake(); len(w.segments) != 1 || large.taken-before < maxEntryCommands && w.bytes < maxEntryBytes/2 {
			t.Errorf("%s: alone it gets %d commands in %d parts", name, large.taken-before, len(w.segments))
		}
	}
}

// TestQueueModel enqueues, takes, answers and leaves at random. Every command gets exactly one reply, in order, and the
// pending bytes are right.
func TestQueueModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := newIntake(1<<40, nil)
		q.requestTakeover()
		var calls []*call
		var reserved []*reservation
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 4).Draw(rt, "step") {
			case 0:
				c := call1(t, rapid.IntRange(0, 3000).Draw(rt, "payload"), rapid.IntRange(1, 100).Draw(rt, "n"))
				c.namespace = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "namespace")
				calls = append(calls, c)
				var room *reservation
				if len(reserved) > 0 && rapid.Bool().Draw(rt, "has waited") {
					room, reserved = reserved[0], reserved[1:]
				}
				assert.NoError(rt, q.enqueue(c, room))
				q.release(room)
			case 1:
				w := q.tryTake()
				if w == nil {
					continue
				}
				for _, s := range w.segments {
					replies := make([]task.Reply, s.n)
					for i := range replies {
						replies[i].Result = &fsmpb.Result{Revision: uint64(s.from + i + 1)}
					}
					q.answer([]segment{s}, replies, nil)
				}
			case 2:
				if i := rapid.IntRange(0, len(calls)).Draw(rt, "who"); i < len(calls) && !calls[i].gone {
					q.leave(ctx, calls[i])
				}
			case 3:
				room, err := q.reserve("a", rapid.IntRange(0, 5000).Draw(rt, "reserved"))
				assert.NoError(rt, err)
				reserved = append(reserved, room)
			case 4:
				if len(reserved) > 0 {
					q.release(reserved[0])
					reserved = reserved[1:]
				}
			}
			pending := 0
			for _, c := range calls {
				if !c.gone {
					pending += c.waiting()
				}
			}
			for _, r := range reserved {
				pending += r.bytes
			}
			if got := q.pendingBytes(); got != pending {
				rt.Fatalf("%d bytes are pending, and said to be are %d", pending, got)
			}
		}
		q.close(task.ErrNotProposed)
		assert.Equal(rt, q.pendingBytes(), 0, "bytes left")
		for _, c := range calls {
			for i, r := range c.replies {
				if r.Err == nil && r.Result.GetRevision() != uint64(i+1) || r.Err != nil && i < c.answered && c.gone {
					rt.Errorf("reply %d: %v", i, r)
				}
			}
		}
	})
}

// TestReservedRoomIsKept checks that a call that waited for the Takeover is not refused after it, whatever other calls
// came meanwhile.
func TestReservedRoomIsKept(t *testing.T) {
	q := newIntake(1<<20, nil)
	room, err := q.reserve("a", 2<<20) // a single call may exceed the limit
	assert.NoError(t, err)
	assert.ErrorIs(t, q.enqueue(call1(t, 1, 1), nil), task.ErrOverloaded, "beside it")
	assert.Equal(t, q.enqueue(call1(t, 512<<10, 5), room), nil)
	q.release(room)
	q.close(task.ErrNotProposed)
	if _, err := q.reserve("a", 1); !errors.Is(err, task.ErrNotProposed) {
		t.Errorf("after the end: %v", err)
	}
}

func TestConfig(t *testing.T) {
	c := newReplicas(t, 1, nil)
	good := Config{
		NodeID: "n1", Transport: &gate{}, Deliver: c.sink.at("n1"), Fatal: func(error) {}, Storage: newMemStores(),
		Policy: Policy{Window: 3},
	}
	full, err := good.withDefaults()
	if err != nil || full.Policy.Window != 3 ||
		full.Policy.MaxAttempts != task.DefaultMaxAttempts {
		t.Errorf("%+v, %v", full, err)
	}
	for name, spoil := range map[string]func(*Config){
		"no node":      func(c *Config) { c.NodeID = "" },
		"no transport": func(c *Config) { c.Transport = nil },
		"no receiver":  func(c *Config) { c.Deliver = nil },
		"no fatal":     func(c *Config) { c.Fatal = nil },
		"no storage":   func(c *Config) { c.Storage = nil },
		"lease":        func(c *Config) { c.Timing = LAN(); c.Timing.Lease = time.Minute },
		"no stuck":     func(c *Config) { c.Timing = LAN(); c.Timing.Stuck = 0 },
	} {
		bad := good
		spoil(&bad)
		_, err := bad.withDefaults()
		assert.Error(t, err, "%s: accepted", name)
	}
	for _, timing := range []Timing{LAN(), Fast(), WAN()} {
		assert.Equal(t, timing.validate(), nil)
	}
}

// TestPlan checks that a task's terms precede its queue's, and those the defaults. Of two contradicting terms, the
// nearer one wins.
func TestPlan(t *testing.T) {
	retry := func(attempts uint32, least, most int64) *fsmpb.Retry {
		return &fsmpb.Retry{MaxAttempts: attempts, MinBackoffMs: least, MaxBackoffMs: most}
	}
	list := func(attempts uint32, delays ...int64) *fsmpb.Retry {
		return &fsmpb.Retry{MaxAttempts: attempts, DelaysMs: delays}
	}
	p := defaultPolicy()
	for _, test := range []struct {
		name        string
		own, queues *fsmpb.Retry
		want        plan
	}{
		{"defaults", nil, nil, plan{0, p.MaxAttempts, p.MinBackoff, p.MaxBackoff, nil}},
		{"the queue's", nil, retry(3, 2000, 5000), plan{0, 3, 2 * time.Second, 5 * time.Second, nil}},
		{"its own", retry(4, 100, 200), retry(3, 2000, 5000), plan{0, 4, 100 * time.Millisecond, 200 * time.Millisecond, nil}},
		{"both", retry(4, 0, 0), retry(3, 0, 5000), plan{0, 4, time.Second, 5 * time.Second, nil}},
		{"its own greatest", retry(0, 0, 500), retry(0, 2000, 5000),
			plan{0, 10, 500 * time.Millisecond, 500 * time.Millisecond, nil}},
		{"the queue's greatest", nil, retry(0, 0, 500), plan{0, 10, 500 * time.Millisecond, 500 * time.Millisecond, nil}},
		{"its own delays", list(0, 7, 8), retry(3, 2000, 5000), plan{0, 3, 2 * time.Second, 5 * time.Second, []int64{7, 8}}},
		{"its own delays and attempts", list(2, 7, 8), list(0, 9), plan{0, 2, p.MinBackoff, p.MaxBackoff, []int64{7, 8}}},
		{"the queue's delays", nil, list(0, 7, 8, 9), plan{0, 4, p.MinBackoff, p.MaxBackoff, []int64{7, 8, 9}}},
		{"the queue's delays, its own attempts", retry(9, 0, 0), list(0, 7, 8), plan{0, 9, p.MinBackoff, p.MaxBackoff, []int64{7, 8}}},
		{"its own backoff before the queue's delays", retry(0, 100, 200), list(0, 7, 8),
			plan{0, 3, 100 * time.Millisecond, 200 * time.Millisecond, nil}},
	} {
		task := &fsmpb.Task{Spec: &fsmpb.Spec{Retry: test.own}}
		got := p.planOf(task, &fsmpb.QueuePolicy{Retry: test.queues})
		got.timeout = 0
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
	for _, test := range []struct{ own, queues, want int64 }{{0, 0, 15000}, {0, 7000, 7000}, {3000, 7000, 3000}} {
		task := &fsmpb.Task{Spec: &fsmpb.Spec{Target: &fsmpb.Target{TimeoutMs: test.own}}}
		queue := &fsmpb.QueuePolicy{Target: &fsmpb.Target{TimeoutMs: test.queues}}
		if got := p.planOf(task, queue).timeout; got != time.Duration(test.want)*time.Millisecond {
			t.Errorf("timeout %v, want %d ms", got, test.want)
		}
	}
	own := p.planOf(&fsmpb.Task{Spec: &fsmpb.Spec{Retry: retry(0, 1_200_000, 0)}}, nil)
	for range 50 {
		if got := own.backoff(1); got < 20*time.Minute {
			t.Fatalf("waits %v with a least of 20 minutes", got)
		}
		if got := p.planOf(nil, nil).backoff(1); got < p.MinBackoff || got > 2*p.MinBackoff {
			t.Fatalf("waits %v by default", got)
		}
	}
}

// TestListedDelaysAreExact checks that a listed delay is exact to the millisecond, that the last one repeats, and that
// a receiver may ask for more time but not for less.
func TestListedDelaysAreExact(t *testing.T) {
	p, now := defaultPolicy(), time.UnixMilli(1_700_000_000_000)
	rapid.Check(t, func(t *rapid.T) {
		delays := rapid.SliceOfN(rapid.Int64Range(1, task.MaxBackoff.Milliseconds()), 1, task.MaxRetryDelays).Draw(t, "delays")
		attempts := rapid.Uint32Range(0, 2*task.MaxRetryDelays).Draw(t, "attempts")
		plan := p.planOf(&fsmpb.Task{Spec: &fsmpb.Spec{Retry: &fsmpb.Retry{DelaysMs: delays, MaxAttempts: attempts}}}, nil)
		if attempts == 0 {
			attempts = uint32(len(delays)) + 1
		}
		later := time.Duration(rapid.Int64Range(0, 90_000).Draw(t, "Retry-After")) * time.Second
		for n := uint32(1); n <= attempts; n++ {
			s := p.verdict(&fsmpb.Task{Attempts: n}, plan, task.Outcome{Error: "500", RetryAfter: later}, false, now)
			want := max(delays[min(int(n), len(delays))-1], min(later, maxRetryAfter).Milliseconds())
			switch {
			case n == attempts && s.Verdict == fsmpb.Verdict_VERDICT_DEAD:
			case n == attempts || s.Verdict != fsmpb.Verdict_VERDICT_RETRY || s.RetryAtMs != now.UnixMilli()+want:
				t.Fatalf("failure %d of %d: %v, want %d ms", n, attempts, s, want)
			}
		}
	})
}

// TestEndsAllowForTheLargestHorizon checks that an end written while commits were quick does not come early after they
// have become slow.
func TestEndsAllowForTheLargestHorizon(t *testing.T) {
	p := Policy{KeepDone: time.Minute}.command(0)
	for name, spare := range map[string]int64{
		"lease of a consumer": p.HorizonMs, "lease of an attempt": p.LeaseMarginMs,
		"tombstone": p.KeepDoneMs - time.Minute.Milliseconds(),
	} {
		if spare <= maxHorizon.Milliseconds() {
			t.Errorf("%s: %d ms to spare, and the wheel may be %v ahead", name, spare, maxHorizon)
		}
	}
}

// TestTombstonesGoLittleByLittle checks that a leader with a far lower limit on tombstones reaches the limit in steps.
func TestTombstonesGoLittleByLittle(t *testing.T) {
	oneReplica(t, func(t *testing.T, _ *replicas, n *node) {
		const tasks = 10_000
		var cmds []*fsmpb.Command
		for i := range tasks {
			id, due := fmt.Sprintf("t-%d", i), time.Now().Add(time.Hour)
			cmds = append(cmds, schedule(id, due), &fsmpb.Command{Id: id, Op: &fsmpb.Command_Cancel{
				Cancel: &fsmpb.Cancel{},
			}})
		}
		n.mustAll(t, cmds)
		held := n.machine.TombstoneBytes()
		if held < 4*droppedAtOnce {
			t.Fatalf("only %d bytes of tombstones are there", held)
		}
		n.cfg.Policy.TombstoneBytes = 1000
		bound := func() int64 { return n.cfg.Policy.tombstoneBound(n.machine.TombstoneBytes()) }
		if got := bound(); got != held-droppedAtOnce {
			t.Errorf("the bound falls from %d to %d at once", held, got)
		}
		for i := 0; n.machine.TombstoneBytes() > 1000; i++ {
			if i == tasks {
				t.Fatalf("%d bytes are left", n.machine.TombstoneBytes())
			}
			n.must(t, schedule("due", time.Now())) // an entry with a policy follows
			time.Sleep(time.Second)
		}
		if got := bound(); got != 1000 {
			t.Errorf("the bound is %d in the end", got)
		}
	})
}

// TestNotBefore checks that times that must not come early are rounded up.
func TestNotBefore(t *testing.T) {
	for ns, want := range map[int64]int64{0: 0, 1: 1, 999_999: 1, 1_000_000: 1, 1_000_001: 2} {
		if got := notBefore(time.Unix(0, ns)); got != want {
			t.Errorf("%d ns: %d ms, want %d", ns, got, want)
		}
	}
}

// pendingBytes returns the bytes of users' waiting calls.
func (q *intake) pendingBytes() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.room.Taken()
}
