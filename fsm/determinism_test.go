package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// Two machines apply the same log. One of them is restored from a snapshot now and then. Both have the same results,
// the same grants and the same hash, and a state that passes the audit.
func TestReplicasAreEqual(t *testing.T) { rapid.Check(t, replicasAreEqual) }

func FuzzReplicas(f *testing.F) {
	addRandom(f)
	f.Fuzz(rapid.MakeFuzz(replicasAreEqual))
}

// addRandom adds seeds that are long enough for whole histories: rapid skips an input that ends too early.
func addRandom(f *testing.F) {
	source := rand.NewChaCha8([32]byte{})
	for range 8 {
		seed := make([]byte, 16<<10)
		_, _ = source.Read(seed) // never fails
		f.Add(seed)
	}
}

func replicasAreEqual(t *rapid.T) {
	g := logGenerator{t: t, now: 1_700_000_000_000, m: New(3)}
	follower := New(3)
	var told, toldAgain []task.Event
	g.m.Observe(func(e *task.Event) { told = append(told, *e) })
	observeAgain := func(e *task.Event) { toldAgain = append(toldAgain, *e) }
	follower.Observe(observeAgain)
	known := map[task.Lane]task.LaneLoad{}
	for range rapid.IntRange(1, 60).Draw(t, "entries") {
		data := g.entry()
		applied := applyTo(t, g.m, data, true)
		g.learn(applied)
		again := applyTo(t, follower, data, rapid.Bool().Draw(t, "full"))
		if len(again.Results) > 0 && fmt.Sprint(printApplied(applied)) != fmt.Sprint(printApplied(again)) {
			t.Fatalf("results differ:\n%v\n%v", printApplied(applied), printApplied(again))
		}
		if rapid.IntRange(0, 9).Draw(t, "snapshot") == 0 {
			follower = restored(t, follower)
			follower.Observe(observeAgain)
		}
		assert.MustEqual(t, cmp.Diff(told, toldAgain, protocmp.Transform()), "", "the events of two replicas (-, +)")
		told, toldAgain = nil, nil
		sameHash(t, g.m, follower)
		sameCounts(t, g.m, follower, g.now)
		followLanes(t, g.m, known, applied.Lanes)
	}
	sameLabelled(t, g.m)
	sameLabelled(t, follower)
	audit(t, g.m)
	audit(t, follower)
}

// followLanes tracks every lane's load as a leader does, from the changes that each entry reports.
func followLanes(t *rapid.T, m *Machine, known map[task.Lane]task.LaneLoad, changed []task.LaneLoad) {
	for _, l := range changed {
		if known[l.Lane] = l; l.Ready+l.Firing+l.Retrying == 0 && !l.Isolated {
			delete(known, l.Lane)
		}
	}
	all := map[task.Lane]task.LaneLoad{}
	for _, l := range m.Loads() {
		all[l.Lane] = l
	}
	assert.MustEqual(t, cmp.Diff(all, known), "", "the lanes (-), and their loads in the entries (+)")
}

func sameCounts(t *rapid.T, a, b *Machine, now int64) {
	if x, y := a.Queues(""), b.Queues(""); !slices.Equal(x, y) {
		t.Fatalf("queues differ: %v and %v", x, y)
	}
	for _, q := range a.Queues("") {
		if x, y := a.QueueCounts("", q, now), b.QueueCounts("", q, now); !proto.Equal(x, y) {
			t.Fatalf("counts differ: %v and %v", x, y)
		}
	}
	sameSizes(t, a, now)
	x, y := printRules(a.Rules()), printRules(b.Rules())
	assert.MustEqual(t, x, y, "rules differ")
}

// sameSizes compares the sizes of all queues with the counts of each.
func sameSizes(t *rapid.T, m *Machine, now int64) {
	got, want := map[string]task.QueueSize{}, map[string]task.QueueSize{}
	for size := range m.QueueSizes(now) {
		got[size.Queue] = size
	}
	for _, q := range m.Queues("") {
		c := m.QueueCounts("", q, now)
		size := task.QueueSize{
			Namespace: c.Namespace, Queue: q, Pending: c.Scheduled + c.Retrying, Ready: c.Ready,
			InFlight: c.Firing + c.Leased, Dead: c.Dead, DueMinute: c.Due_1M, DueHour: c.Due_1H,
			OldestOverdueMs: c.OldestOverdueMs,
		}
		if size.Live() > 0 {
			want[q] = size
		}
	}
	assert.MustEqual(t, cmp.Diff(want, got), "", "the counts (-) and the sizes (+) of the queues differ")
}

// A snapshot that is written while the machine changes has exactly the state of the moment at which it was taken.
func TestSnapshotIsOfItsMoment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := logGenerator{t: t, now: 1_700_000_000_000, m: New(3)}
		for range rapid.IntRange(1, 30).Draw(t, "before") {
			g.learn(applyTo(t, g.m, g.entry(), true))
		}
		_, want := g.m.Hash()
		snapshot := g.m.Snapshot()
		for range rapid.IntRange(1, 30).Draw(t, "after") {
			g.learn(applyTo(t, g.m, g.entry(), true))
		}
		late := restoredFrom(t, snapshot, 3)
		if _, sum := late.Hash(); sum != want {
			t.Fatalf("restored to %x, and it was taken at %x", sum, want)
		}
		audit(t, late)
		audit(t, g.m)
	})
}

// A follower builds neither results nor grants, because only the leader needs them.
func TestFollowerBuildsNoResults(t *testing.T) {
	m := New(1)
	entry := &fsmpb.Entry{Version: 1, Commands: []*fsmpb.Command{scheduleCommand("a", 5), advanceCommand(10)}}
	data, err := proto.Marshal(entry)
	assert.NoError(t, err)
	applied, err := applyAndScribble(m, data, false)
	if err != nil || len(applied.Results)+len(applied.Grants) != 0 {
		t.Fatalf("got %v, %v", applied, err)
	}
	task := m.Get("", "a")
	assert.MustEqual(t, task.State, fsmpb.State_STATE_FIRING, "the entry was not applied: %v", task)
}

// An entry with a newer version or command stops the replica, and no part of the entry is applied.
func TestNewerEntriesAreRefusedWhole(t *testing.T) {
	for name, entry := range map[string]*fsmpb.Entry{
		"version": {Version: CommandVersion + 1, Commands: []*fsmpb.Command{scheduleCommand("a", 5)}},
		"command": {Version: CommandVersion, Commands: []*fsmpb.Command{scheduleCommand("a", 5), {Id: "b"}}},
	} {
		data, err := proto.Marshal(entry)
		assert.NoError(t, err)
		m := New(1)
		if _, err := m.Apply(data, true); err == nil {
			t.Errorf("%s: applied", name)
		}
		if m.Get("", "a") != nil {
			t.Errorf("%s: a part of it was applied", name)
		}
	}
}

// logGenerator draws entries that make sense together. It draws few ids, so that commands meet tasks in every state.
type logGenerator struct {
	t      *rapid.T
	m      *Machine
	now    int64
	grants []task.Grant
}

func (g *logGenerator) learn(a Applied) {
	g.grants = append(g.grants, a.Grants...)
	if len(g.grants) > 8 {
		g.grants = g.grants[len(g.grants)-8:]
	}
}

func (g *logGenerator) entry() []byte {
	g.now += int64(rapid.SampledFrom([]int{0, 1, 20, 900, 30_000, 700_000}).Draw(g.t, "passes"))
	entry := &fsmpb.Entry{Version: CommandVersion, AtMs: g.now}
	for range rapid.IntRange(1, 6).Draw(g.t, "commands") {
		entry.Commands = append(entry.Commands, g.command())
	}
	data, err := proto.Marshal(entry)
	assert.NoError(g.t, err)
	return data
}

func (g *logGenerator) command() *fsmpb.Command {
	verb := rapid.SampledFrom([]string{
		"schedule", "schedule", "schedule", "cancel", "patch", "touch", "fire", "advance", "advance", "grant", "grant", "isolate", "settle", "settle", "settle",
		"takeover", "rule", "extend", "replay", "drop", "erase",
		"repeat", "instants", "instants", "instants", "pause", "resume", "start", "skip", "backfill",
	}).Draw(g.t, "verb")
	c := &fsmpb.Command{Id: g.id(), Answer: fsmpb.Answer_ANSWER_FULL}
	if setSeriesOp(&fsmpb.Command{}, verb, args{}, 0) {
		return g.series(c, verb)
	}
	if verb == "settle" || verb == "extend" {
		return g.settle(c, verb)
	}
	a := g.args()
	if rapid.IntRange(0, 2).Draw(g.t, "keyed") == 0 && verb != "advance" {
		c.Key = &fsmpb.Key{Hash: rapid.Uint64Range(1, 4).Draw(g.t, "key"), Call: rapid.Uint64Range(1, 2).Draw(g.t, "call")}
	}
	if verb == "rule" {
		a.id = rapid.SampledFrom([]string{"", "q1", "q2"}).Draw(g.t, "of")
	}
	if !setOp(c, verb, a, g.now) {
		g.t.Fatalf("no verb %q", verb)
	}
	return c
}

// series draws a command about a schedule.
func (g *logGenerator) series(c *fsmpb.Command, verb string) *fsmpb.Command {
	c.Id = rapid.SampledFrom([]string{"s@", "t@", "a-schedule-whose-id-is-long@"}).Draw(g.t, "schedule")
	a := g.args()
	at := func(i int) string { return fmt.Sprint(g.now + int64([]int{-40_000, -2000, 1, 800, 31_000}[i])) }
	first := rapid.IntRange(0, 3).Draw(g.t, "first")
	a.named["next"] = at(first) + "," + at(first+1) + "+5"
	a.named["at"] = fmt.Sprint(g.now-9000, ",", g.now-8000)
	g.maybe(a, "passed", "coalesced:3:5,missed:1:9", "missed:2:5")
	g.maybe(a, "overlap", "queue_one", "queue_all", "allow", "cancel_previous")
	g.maybe(a, "paused", "1")
	g.maybe(a, "every", "1000")
	g.maybe(a, "complete", "1")
	if rapid.Bool().Draw(g.t, "keyed") && verb != "instants" {
		c.Key = &fsmpb.Key{Hash: rapid.Uint64Range(1, 4).Draw(g.t, "key"), Call: rapid.Uint64Range(1, 2).Draw(g.t, "call")}
	}
	setSeriesOp(c, verb, a, g.now)
	bindInstants(g.m, c, a)
	return c
}

func (g *logGenerator) id() string {
	return rapid.SampledFrom([]string{"a", "b", "c", "s@1", "s@2", "an-id-that-is-too-long-for-the-record"}).Draw(g.t, "id")
}

// args draws every argument that some verb takes. Each verb uses the arguments that it knows.
func (g *logGenerator) args() args {
	near := func(name string) string {
		return fmt.Sprint(g.now + int64(rapid.SampledFrom([]int{-5000, 0, 1, 15, 70, 5000, 4_000_000}).Draw(g.t, name)))
	}
	a := args{named: map[string]string{
		"at": near("at"), "to": fmt.Sprint(g.now + 20), "payload": rapid.SampledFrom([]string{"", "p", "payload"}).Draw(g.t, "payload"),
		"max": fmt.Sprint(rapid.IntRange(0, 4).Draw(g.t, "max")), "lane": rapid.SampledFrom([]string{"default|http://x:80", "default|", "q1|", "q2|", "default|http://x:80|g", "default|http://x:80||/1", "default|http://x:80|g|/1", "default||g", "q1||g", "q1||h"}).Draw(g.t, "lane"),
		"window": fmt.Sprint(rapid.IntRange(0, 3).Draw(g.t, "window")), "keep": fmt.Sprint(rapid.IntRange(0, 900_000).Draw(g.t, "keep")),
		"attempts": fmt.Sprint(rapid.IntRange(0, 2).Draw(g.t, "attempts")), "expires": fmt.Sprint(rapid.SampledFrom([]int{0, 0, 30, 50_000}).Draw(g.t, "expires")),
		"tombstones": fmt.Sprint(rapid.SampledFrom([]int{0, 400}).Draw(g.t, "tombstones")), "origin": "77",
		"queue": rapid.SampledFrom([]string{"", "default", "q1", "q2"}).Draw(g.t, "queue"),
	}}
	g.maybe(a, "url", "http://x/1", "http://x/2", "https://y/")
	g.maybe(a, "delay", "0", "40", "60000")
	g.maybe(a, "no_later_than", near("bound"))
	g.maybe(a, "or_schedule", "30")
	g.maybe(a, "label", "red", "blue")
	g.maybe(a, "hours", "09:00-20:00", "22:00-06:00")
	g.maybe(a, "group", "g", "h", "g")
	g.maybe(a, "priority", "1", "3", "5")
	g.maybe(a, "in_order", "1")
	g.maybe(a, "credit", "default|http://x:80=0", "q1|https://y:443=2", "default|=1:900:7,default|=2:30000:8", "q1|=2:900:9,q1|=1")
	g.maybe(a, "lease", "900", "30000")
	g.maybe(a, "tag", "5")
	g.maybe(a, "turn", "1", "2", "3")
	g.maybe(a, "end", "1")
	g.maybe(a, "pushed", "1")
	g.maybe(a, "held", "1")
	g.maybe(a, "timeout", "700")
	g.maybe(a, "keep_done", "5000")
	g.maybe(a, "keep_dead", "8000")
	g.maybe(a, "clear", "target", "payload", "labels", "window")
	g.maybe(a, "generated", "1")
	g.maybe(a, "header", "v")
	g.maybe(a, "auth", "secret", "***")
	return a
}

func (g *logGenerator) maybe(a args, name string, values ...string) {
	if rapid.Bool().Draw(g.t, name+"?") {
		a.named[name] = rapid.SampledFrom(values).Draw(g.t, name)
	}
}

// settle draws the outcome of one of the last grants, or of a grant that was never made.
func (g *logGenerator) settle(c *fsmpb.Command, verb string) *fsmpb.Command {
	op := &fsmpb.Settle{
		Verdict:   fsmpb.Verdict(rapid.IntRange(1, 6).Draw(g.t, "verdict")),
		RetryAtMs: g.now + 50,
		Error:     rapid.SampledFrom([]string{"", "500", "a text that says why"}).Draw(g.t, "error"),
		Fence:     3, Occurrence: 2,
		Consumer: rapid.Bool().Draw(g.t, "consumer"),
		Node:     rapid.SampledFrom([]string{"", "n1"}).Draw(g.t, "node"),
	}
	if len(g.grants) > 0 {
		grant := rapid.SampledFrom(g.grants).Draw(g.t, "grant")
		c.Id, op.Fence, op.Occurrence = grant.ID, grant.Fence, grant.Occurrence
	}
	c.Op = &fsmpb.Command_Settle{Settle: op}
	if verb == "extend" {
		length := rapid.Int64Range(0, 40_000).Draw(g.t, "length")
		c.Op = &fsmpb.Command_Extend{Extend: &fsmpb.Extend{Fence: op.Fence, Occurrence: op.Occurrence, LeaseMs: length}}
	}
	return c
}

func applyTo(t *rapid.T, m *Machine, data []byte, full bool) Applied {
	applied, err := applyAndScribble(m, data, full)
	assert.NoError(t, err)
	return applied
}

func sameHash(t *rapid.T, a, b *Machine) {
	x, y := a.store.Hash(), b.store.Hash()
	assert.MustEqual(t, x, y, "hashes differ")
}

func scheduleCommand(id string, at int64) *fsmpb.Command {
	spec := &fsmpb.Spec{Target: &fsmpb.Target{Url: "http://x/"}}
	return &fsmpb.Command{Id: id, Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{FireAtMs: at, Spec: spec}}}
}

func advanceCommand(to int64) *fsmpb.Command {
	policy := &fsmpb.Policy{Window: 1 << 20, AttemptTimeoutMs: 15_000, LeaseMarginMs: 5_000, MaxAttempts: 3}
	return &fsmpb.Command{Op: &fsmpb.Command_Advance{Advance: &fsmpb.Advance{ToMs: to, Max: 2048, Policy: policy}}}
}
