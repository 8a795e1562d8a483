package fsm

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// Two shards between which slots move equal one shard that has all slots, whatever commands come, wherever a move is
// given up, and however often replicas are restored from snapshots.
func TestMovedTasksEqualUnmoved(t *testing.T) { rapid.Check(t, movedEqualUnmoved) }

func FuzzMoves(f *testing.F) {
	addRandom(f)
	f.Fuzz(rapid.MakeFuzz(movedEqualUnmoved))
}

func movedEqualUnmoved(t *rapid.T) {
	w := newMoveWorld(t)
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		if rapid.IntRange(0, 2).Draw(t, "moves") == 0 {
			w.step()
		} else {
			w.commands()
		}
		w.check()
	}
	w.settle()
	w.check()
	for _, s := range w.shards {
		audit(t, s.m)
		audit(t, s.follower)
	}
}

// moveWorld has two shards, and one that never moves a slot.
type moveWorld struct {
	t      *rapid.T
	draw   logGenerator
	now    int64
	whole  *Machine
	shards [2]*movedShard
	owner  map[string]int // by id: index of the shard that the map names

	move  *move
	moves uint64      // begun so far
	late  []shardStep // first steps of moves that were given up

	wholeGrants, movedGrants map[string][]task.Grant // not yet paired, by id
	pairs                    []grantPair             // the last few
	webhooks                 map[string]string       // webhook id of the whole shard → that of the others
	revisions                map[string]uint64       // highest seen, by id
}

type movedShard struct{ m, follower *Machine }

type shardStep struct {
	shard   int
	command *fsmpb.Command
}

type grantPair struct{ whole, moved task.Grant }

// move is a move under way, with the steps of the control group's leader and of the two shards' leaders.
type move struct {
	id       uint64
	from, to int
	ids      []string
	ranges   []*fsmpb.SlotRange
	expect   *fsmpb.Command // first step at the target
	seal     *fsmpb.Command // first step at the source
	watch    *Watch
	expected bool // otherwise expect has not come
	copied   bool
	sealed   *fsmpb.ReadySlots // nil: not sealed
	ready    bool
	owned    bool // the control group has named the target as the owner
	opened   bool
}

func newMoveWorld(t *rapid.T) *moveWorld {
	w := &moveWorld{
		t: t, draw: logGenerator{t: t}, now: 1_700_000_000_000, whole: New(9), owner: map[string]int{},
		wholeGrants: map[string][]task.Grant{}, movedGrants: map[string][]task.Grant{}, webhooks: map[string]string{},
		revisions: map[string]uint64{},
	}
	for i := range w.shards {
		w.shards[i] = &movedShard{New(uint32(i)), New(uint32(i))}
	}
	w.everywhere(func(m uint64) *fsmpb.Command {
		return &fsmpb.Command{Op: &fsmpb.Command_Takeover{Takeover: &fsmpb.Takeover{Origin: m}}}
	})
	return w
}

var moveIDs = []string{"a", "b", "c", "d", "e", "an-id-that-is-too-long-for-the-record"}

// queueOf returns the queue of an id's tasks. Tasks that share a lane wait for each other, also in a single shard.
func queueOf(id string) string { return fmt.Sprint("q", slices.Index(moveIDs, id)) }

// apply applies commands to a shard, on the leader and a follower.
func (w *moveWorld) apply(shard int, cmds ...*fsmpb.Command) Applied {
	s := w.shards[shard]
	data := mustMarshal(&fsmpb.Entry{Version: CommandVersion, AtMs: w.now, Commands: cmds})
	applied := applyTo(w.t, s.m, data, true)
	applyTo(w.t, s.follower, data, false)
	if rapid.IntRange(0, 5).Draw(w.t, "snapshot") == 0 {
		s.follower = restored(w.t, s.follower)
	}
	sameHash(w.t, s.m, s.follower)
	for _, g := range applied.Grants {
		w.movedGrants[g.ID] = append(w.movedGrants[g.ID], g)
	}
	return applied
}

func (w *moveWorld) applyWhole(cmds ...*fsmpb.Command) Applied {
	data := mustMarshal(&fsmpb.Entry{Version: CommandVersion, AtMs: w.now, Commands: cmds})
	applied := applyTo(w.t, w.whole, data, true)
	for _, g := range applied.Grants {
		w.wholeGrants[g.ID] = append(w.wholeGrants[g.ID], g)
	}
	return applied
}

// everywhere applies a command of the shards themselves.
func (w *moveWorld) everywhere(of func(machine uint64) *fsmpb.Command) {
	w.applyWhole(of(100))
	for i := range w.shards {
		w.apply(i, of(uint64(i)+1))
	}
	w.pair()
}

// pair pairs the grants of the same attempts.
func (w *moveWorld) pair() {
	for _, id := range moveIDs {
		n := min(len(w.wholeGrants[id]), len(w.movedGrants[id]))
		for i := range n {
			w.pairs = append(w.pairs, grantPair{w.wholeGrants[id][i], w.movedGrants[id][i]})
		}
		w.wholeGrants[id], w.movedGrants[id] = w.wholeGrants[id][n:], w.movedGrants[id][n:]
	}
	w.pairs = w.pairs[max(0, len(w.pairs)-8):]
}

// frozen reports whether the tasks of an id are between two shards. Time stands still meanwhile: the whole shard would
// go on.
func (w *moveWorld) frozen(id string) bool { return w.isSealed(id) && !w.move.opened }

func (w *moveWorld) isSealed(id string) bool {
	return w.move != nil && w.move.sealed != nil && slices.Contains(w.move.ids, id)
}

func (w *moveWorld) commands() {
	if w.move == nil || w.move.sealed == nil || w.move.opened {
		w.now += int64(rapid.SampledFrom([]int{0, 1, 20, 900, 30_000, 700_000}).Draw(w.t, "passes"))
	}
	verb := rapid.SampledFrom([]string{
		"schedule", "schedule", "schedule", "cancel", "patch", "touch", "fire", "advance", "advance", "advance", "grant",
		"settle", "settle", "settle", "takeover", "rule", "extend", "replay", "drop",
	}).Draw(w.t, "verb")
	switch verb {
	case "advance", "grant", "takeover", "rule":
		if w.move != nil && w.move.sealed != nil && !w.move.opened {
			w.advance(w.now + 20)
		} else {
			w.command(verb)
		}
	case "settle", "extend":
		w.end(verb)
	default:
		w.call(verb)
	}
}

// command applies a command of the shards themselves. No limit may depend on the number of tasks in one shard.
func (w *moveWorld) command(verb string) {
	a := w.draw.args()
	a.named["to"] = fmt.Sprint(w.now + 20)
	a.named["window"], a.named["tombstones"], a.named["max"] = "100000", "0", "100000"
	queue := queueOf(rapid.SampledFrom(moveIDs).Draw(w.t, "of"))
	a.id = queue
	a.named["lane"] = queue + "|" + rapid.SampledFrom([]string{"", "http://x:80"}).Draw(w.t, "to")
	switch rapid.IntRange(0, 2).Draw(w.t, "credits") {
	case 0:
		a.named["credit"] = fmt.Sprintf("%s|=100000:900:7,q1|=100000:900:9", queue)
	case 1:
		a.named["credit"] = fmt.Sprintf("%s|http://x:80=0,q1|https://y:443=0", queue)
	default:
		delete(a.named, "credit")
	}
	w.everywhere(func(machine uint64) *fsmpb.Command {
		c := &fsmpb.Command{}
		a.named["origin"] = fmt.Sprint(machine)
		setOp(c, verb, a, w.now)
		return c
	})
}

func (w *moveWorld) call(verb string) {
	id := rapid.SampledFrom(moveIDs).Draw(w.t, "id")
	a := w.draw.args()
	a.named["queue"] = queueOf(id)
	a.named["at"] = fmt.Sprint(w.now + int64(rapid.SampledFrom([]int{-5000, 0, 1, 15, 70, 5000, 4_000_000}).Draw(w.t, "at")))
	key := &fsmpb.Key{Hash: rapid.Uint64Range(1, 4).Draw(w.t, "key"), Call: rapid.Uint64Range(1, 2).Draw(w.t, "call")}
	keyed := rapid.IntRange(0, 2).Draw(w.t, "keyed") == 0
	matched := rapid.IntRange(0, 3).Draw(w.t, "matched") == 0
	w.both(id, func(m *Machine, _ func(grantPair) task.Grant) *fsmpb.Command {
		c := &fsmpb.Command{Id: id, Answer: fsmpb.Answer_ANSWER_FULL}
		if keyed {
			c.Key = key
		}
		if v := m.Get("", id); matched && v != nil {
			c.Condition = &fsmpb.Condition{Revisions: []uint64{v.Revision}}
		}
		setOp(c, verb, a, w.now)
		return c
	})
}

// end settles or extends one of the last grants.
func (w *moveWorld) end(verb string) {
	if len(w.pairs) == 0 {
		return
	}
	pair := rapid.SampledFrom(w.pairs).Draw(w.t, "grant")
	g := logGenerator{t: w.t, now: w.now, grants: []task.Grant{pair.whole}}
	op := g.settle(&fsmpb.Command{}, verb)
	w.both(pair.whole.ID, func(_ *Machine, of func(grantPair) task.Grant) *fsmpb.Command {
		c := proto.CloneOf(op)
		grant := of(pair)
		if s := c.GetSettle(); s != nil {
			s.Fence, s.Occurrence = grant.Fence, grant.Occurrence
		} else {
			c.GetExtend().Fence, c.GetExtend().Occurrence = grant.Fence, grant.Occurrence
		}
		return c
	})
}

// both applies a command on a task to its shard and to the whole one, and compares the results. While the task is
// between two shards, both refuse the command and remain as they were.
func (w *moveWorld) both(id string, of func(*Machine, func(grantPair) task.Grant) *fsmpb.Command) {
	moved := func(p grantPair) task.Grant { return p.moved }
	if w.frozen(id) {
		for i, s := range w.shards {
			if s.m.SlotOf("", id).Phase == open {
				continue // this slot is open already, and others are not
			}
			got := w.apply(i, of(s.m, moved)).Results[0]
			if got.Code != fsmpb.Code_CODE_MOVING && got.Code != fsmpb.Code_CODE_MOVED {
				w.t.Fatalf("shard %d answers %v on a task that moves", i, got)
			}
		}
		return
	}
	owner := w.owner[id]
	got := w.apply(owner, of(w.shards[owner].m, moved)).Results[0]
	want := w.applyWhole(of(w.whole, func(p grantPair) task.Grant { return p.whole })).Results[0]
	w.pair()
	if got.Code != want.Code || got.Previous != want.Previous || got.Outcome != want.Outcome || got.Repeated != want.Repeated ||
		!proto.Equal(unnumbered(got.Task), unnumbered(want.Task)) {
		w.t.Fatalf("shard %d answers\n%v, and a shard that never moved\n%v", owner, got, want)
	}
	if other := w.shards[1-owner].m; w.everMoved(id) {
		refused := w.apply(1-owner, of(other, moved)).Results[0]
		if refused.Code != fsmpb.Code_CODE_MOVED && refused.Code != fsmpb.Code_CODE_MOVING {
			w.t.Fatalf("shard %d does not own %q and answers %v", 1-owner, id, refused)
		}
	}
}

func (w *moveWorld) everMoved(id string) bool {
	return w.shards[1-w.owner[id]].m.SlotOf("", id).Move > 0 && w.owner[id] != 0 || w.shards[0].m.SlotOf("", id).Phase == gone
}

// unnumbered returns a copy of a task without the parts that differ between shards.
func unnumbered(v *fsmpb.Task) *fsmpb.Task {
	if v == nil {
		return nil
	}
	v = proto.CloneOf(v)
	v.Shard, v.Revision, v.Fence, v.Occurrence, v.WebhookId = 0, 0, 0, 0, ""
	for _, p := range v.History {
		p.Fence = 0
	}
	return v
}

// check compares all tasks that are not between two shards.
func (w *moveWorld) check() {
	for _, id := range moveIDs {
		if w.frozen(id) {
			continue
		}
		got, want := w.shards[w.owner[id]].m.Get("", id), w.whole.Get("", id)
		if !proto.Equal(unnumbered(got), unnumbered(want)) {
			w.t.Fatalf("shard %d has\n%v, and a shard that never moved\n%v", w.owner[id], got, want)
		}
		if other := w.shards[1-w.owner[id]].m.Get("", id); other != nil && !w.isSealed(id) {
			w.t.Fatalf("shard %d shows a task of shard %d: %v", 1-w.owner[id], w.owner[id], other)
		}
		if got != nil {
			w.checkNumbers(id, got, want)
		}
	}
	w.checkCounts()
	if rapid.IntRange(0, 9).Draw(w.t, "lists") == 0 {
		for _, s := range w.shards {
			sameLabelled(w.t, s.m)
			sameLabelled(w.t, s.follower)
		}
	}
}

// checkNumbers checks that revisions rise and that each occurrence keeps its webhook id.
func (w *moveWorld) checkNumbers(id string, got, want *fsmpb.Task) {
	if got.Revision < w.revisions[id] || got.Fence > got.Revision && got.State == fsmpb.State_STATE_FIRING {
		w.t.Fatalf("revision %d after %d, fence %d", got.Revision, w.revisions[id], got.Fence)
	}
	w.revisions[id] = got.Revision
	if before, ok := w.webhooks[want.WebhookId]; ok && before != got.WebhookId {
		w.t.Fatalf("the webhook id of %q changed from %s to %s", id, before, got.WebhookId)
	}
	w.webhooks[want.WebhookId] = got.WebhookId
}

// checkCounts compares the counts of the queues, which leave out copies, unless slots are being opened or dropped.
func (w *moveWorld) checkCounts() {
	if w.move != nil && w.move.sealed != nil {
		return
	}
	for _, id := range moveIDs {
		q := queueOf(id)
		got, want := w.shards[0].m.QueueCounts("", q, w.now), w.whole.QueueCounts("", q, w.now)
		other := w.shards[1].m.QueueCounts("", q, w.now)
		got.Scheduled, got.Ready, got.Firing = got.Scheduled+other.Scheduled, got.Ready+other.Ready, got.Firing+other.Firing
		got.Leased, got.Retrying, got.Dead = got.Leased+other.Leased, got.Retrying+other.Retrying, got.Dead+other.Dead
		got.Delivered, got.Cancelled = got.Delivered+other.Delivered, got.Cancelled+other.Cancelled
		got.Due_1M, got.Due_1H, got.Due_1D = got.Due_1M+other.Due_1M, got.Due_1H+other.Due_1H, got.Due_1D+other.Due_1D
		got.OldestOverdueMs, want.OldestOverdueMs = 0, 0
		got.OldestPulled, want.OldestPulled = false, false
		if !proto.Equal(got, want) {
			w.t.Fatalf("the shards count\n%v, and a shard that never moved\n%v", got, want)
		}
	}
}

// step takes the next step of the move, or gives it up, or begins one. A step of a move that was given up may come before.
func (w *moveWorld) step() {
	if len(w.late) > 0 && rapid.Bool().Draw(w.t, "late") {
		w.refused(rapid.SampledFrom(w.late).Draw(w.t, "late step"))
	}
	switch mv := w.move; {
	case mv == nil:
		w.begin()
	case !mv.expected, !mv.owned && rapid.IntRange(0, 7).Draw(w.t, "gives up") == 0:
		w.giveUp()
	case !mv.copied:
		w.copy()
	case mv.sealed == nil && rapid.Bool().Draw(w.t, "streams"):
		w.stream()
	case mv.sealed == nil:
		w.seal()
	case !mv.ready:
		w.ready()
	case !mv.owned:
		mv.owned = true
		for _, id := range mv.ids {
			w.owner[id] = mv.to
		}
	case !mv.opened:
		w.open()
	default:
		w.drop()
	}
}

func (w *moveWorld) begin() {
	w.moves++
	mv := &move{id: w.moves, from: rapid.IntRange(0, 1).Draw(w.t, "from")}
	mv.to = 1 - mv.from
	slots := map[uint32]bool{}
	for _, id := range moveIDs {
		if w.owner[id] == mv.from && rapid.Bool().Draw(w.t, "takes "+id) {
			mv.ids = append(mv.ids, id)
			slots[task.Slot("", id)] = true
		}
	}
	if len(mv.ids) == 0 {
		return
	}
	for slot := range uint32(task.Slots) {
		if slots[slot] {
			mv.ranges = append(mv.ranges, &fsmpb.SlotRange{First: slot, End: slot + 1})
		}
	}
	fresh := len(w.shards[mv.to].m.Slots()) == 0 && mv.to == 1
	w.move = mv
	mv.expect = &fsmpb.Command{Op: &fsmpb.Command_ExpectSlots{ExpectSlots: &fsmpb.ExpectSlots{
		Move: mv.id, Ranges: mv.ranges, From: uint32(mv.from), Epoch: mv.id, Fresh: fresh,
	}}}
	mv.seal = &fsmpb.Command{Op: &fsmpb.Command_SealSlots{SealSlots: &fsmpb.SealSlots{
		Move: mv.id, Ranges: mv.ranges, To: uint32(mv.to), Epoch: mv.id,
	}}}
	if mv.expected = rapid.IntRange(0, 7).Draw(w.t, "expects") > 0; mv.expected {
		w.ok(mv.to, mv.expect)
	}
	mv.watch = w.shards[mv.from].m.Watch(rangesOf(mv.ranges))
}

func rangesOf(messages []*fsmpb.SlotRange) []SlotRange {
	var ranges []SlotRange
	for _, m := range messages {
		ranges = append(ranges, SlotRange{First: m.First, End: m.End})
	}
	return ranges
}

// ok applies a command of a move, sometimes twice, and returns whether there is more to do.
func (w *moveWorld) ok(shard int, c *fsmpb.Command) (more bool) {
	for range rapid.IntRange(1, 2).Draw(w.t, "times") {
		r := w.apply(shard, c).Results[0]
		assert.MustEqual(w.t, r.Code, fsmpb.Code_CODE_OK, "%v is answered %v", c, r)
		more = r.More
	}
	return more
}

// refused applies a step of a move that was given up. It may have left before, and comes late.
func (w *moveWorld) refused(s shardStep) {
	r := w.apply(s.shard, s.command).Results[0]
	assert.MustEqual(w.t, r.Code, fsmpb.Code_CODE_CONFLICT, "%v is answered %v", s.command, r)
}

func (w *moveWorld) copy() {
	tasks, done, _, err := w.move.watch.Copy(rapid.IntRange(1, 400).Draw(w.t, "bytes"))
	assert.NoError(w.t, err)
	w.take(tasks, nil)
	w.move.copied = done
}

func (w *moveWorld) take(tasks [][]byte, gone []*fsmpb.TaskName) {
	w.ok(w.move.to, &fsmpb.Command{Op: &fsmpb.Command_ImportTasks{ImportTasks: &fsmpb.ImportTasks{
		Move: w.move.id, Tasks: tasks, Gone: gone,
	}}})
}

func (w *moveWorld) stream() (left int) {
	tasks, gone, left, err := w.move.watch.Changes(rapid.IntRange(1, 400).Draw(w.t, "bytes"))
	assert.NoError(w.t, err)
	w.take(tasks, gone)
	return left
}

func (w *moveWorld) seal() {
	w.ok(w.move.from, w.move.seal)
	sealed, err := w.move.watch.Sealed()
	assert.NoError(w.t, err)
	w.move.sealed = sealed
}

func (w *moveWorld) ready() {
	for w.stream() > 0 {
		continue
	}
	w.move.sealed.Move = w.move.id
	w.ok(w.move.to, &fsmpb.Command{Op: &fsmpb.Command_ReadySlots{ReadySlots: w.move.sealed}})
	w.move.ready = true
}

func (w *moveWorld) open() {
	op := &fsmpb.OpenSlots{Move: w.move.id, Max: rapid.Uint32Range(1, 3).Draw(w.t, "max")}
	if w.ok(w.move.to, &fsmpb.Command{Op: &fsmpb.Command_OpenSlots{OpenSlots: op}}) {
		return
	}
	w.move.opened = true
	w.move.watch.Stop()
	w.catchUp()
}

// catchUp advances the shards to where the whole one is: what came due during the seal fires.
func (w *moveWorld) catchUp() { w.advance(w.whole.Position()) }

// advance is the only command of the shards themselves during a seal, so that catchUp can repeat it.
func (w *moveWorld) advance(to int64) {
	w.everywhere(func(uint64) *fsmpb.Command {
		c := &fsmpb.Command{}
		setOp(c, "advance", args{named: map[string]string{"to": fmt.Sprint(to), "window": "100000", "max": "100000"}}, w.now)
		return c
	})
}

func (w *moveWorld) drop() {
	op := &fsmpb.DropSlots{Move: w.move.id, Max: rapid.Uint32Range(1, 3).Draw(w.t, "max")}
	if !w.ok(w.move.from, &fsmpb.Command{Op: &fsmpb.Command_DropSlots{DropSlots: op}}) {
		w.move = nil
	}
}

// giveUp ends a move that the control group has not decided. Leaders may have changed: a later move copies again.
func (w *moveWorld) giveUp() {
	mv := w.move
	unseal := &fsmpb.Command{Op: &fsmpb.Command_UnsealSlots{UnsealSlots: &fsmpb.UnsealSlots{
		Move: mv.id, Max: 1, Ranges: mv.ranges, To: uint32(mv.to), Epoch: mv.id,
	}}}
	for w.ok(mv.from, unseal) {
		continue
	}
	abandon := &fsmpb.Command{Op: &fsmpb.Command_AbandonSlots{AbandonSlots: &fsmpb.AbandonSlots{
		Move: mv.id, Max: 1, Ranges: mv.ranges, From: uint32(mv.from), Epoch: mv.id,
	}}}
	for w.ok(mv.to, abandon) {
		continue
	}
	mv.watch.Stop()
	w.move = nil
	w.late = append(w.late, shardStep{mv.to, mv.expect}, shardStep{mv.from, mv.seal})
	if mv.sealed != nil {
		w.catchUp()
	}
}

// settle ends the move under way.
func (w *moveWorld) settle() {
	for w.move != nil {
		w.step()
	}
}
