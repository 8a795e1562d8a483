package dispatch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
	"github.com/belfryhq/belfry/shard/internal/groups"
	"github.com/belfryhq/belfry/shard/internal/throttle"
)

// world is all that surrounds a planner, deterministic and without a clock: the machine with its lanes, receivers,
// consumers, and the owners of limited queues. Two worlds with equal steps give equal results.
type world struct {
	t       rapid.TB
	planner *Planner
	now     time.Time
	log     strings.Builder // each plan, and each instant to wake at

	policies map[QueueName]*fsmpb.QueuePolicy
	rules    map[QueueName]*fsmpb.QueuePolicy // the policies that the machine knows
	lines    map[task.Lane]*line
	names    []task.Lane // keys of lines, in the order in which they were made
	purses   map[QueueName]*purse
	down     map[task.Lane]bool // receivers that fail

	asks map[QueueName]*groups.Ask // under way

	fence   uint64
	came    int64        // due time of the last task that waited
	running []task.Grant // started and not yet ended, in order
	settles []settle     // settles of the next entry
	granted int          // total number of grants
	settled int          // total number of settles
	served  map[task.Lane]int
}

// line is a lane of the machine.
type line struct {
	task.LaneLoad
	waiting int     // tasks that the next Advance pops
	dues    []int64 // of the ready tasks, in order
	wishes  []desk.Wish
	changed bool // changed by the entry being applied
}

type settle struct {
	grant task.Grant
	how   *Ending
	again bool // the task waits again
	begun bool // its attempt began
}

// purse holds a limited queue's permits. Its owner lends the permits that the limit leaves.
type purse struct{ unused, inFlight, want int }

func (p *purse) Free(time.Time) int { return p.unused }

func (p *purse) Take(time.Time) bool {
	if p.unused == 0 {
		return false
	}
	p.unused--
	return true
}

func (p *purse) Report(_ time.Time, inFlight, want, _ int) {
	p.inFlight, p.want, p.unused = inFlight, want, min(p.unused, want)
}

func (*purse) CountInFlight(bool) {}

var testThrottle = throttle.Config{
	Start: 4, Max: 32, Trip: 6, MinPause: 250 * time.Millisecond, MaxPause: 10 * time.Second,
}

func newWorld(t rapid.TB, strangers int) *world {
	w := &world{
		t: t, now: time.Unix(1e9, 0),
		policies: map[QueueName]*fsmpb.QueuePolicy{}, rules: map[QueueName]*fsmpb.QueuePolicy{},
		lines: map[task.Lane]*line{}, purses: map[QueueName]*purse{}, down: map[task.Lane]bool{},
		served: map[task.Lane]int{}, asks: map[QueueName]*groups.Ask{},
	}
	w.planner = New(Config{
		Throttle: testThrottle, Crowd: NewCrowd(2 * strangers), Policies: w, Owners: w, Desk: w,
	})
	w.planner.Isolates(true)
	return w
}

// Policy implements Policies.
func (w *world) Policy(namespace, queue string) *fsmpb.QueuePolicy {
	return w.policies[QueueName{namespace, queue}]
}

// Permits implements Owners.
func (w *world) Permits(q QueueName) Permits {
	if w.purses[q] == nil {
		w.purses[q] = &purse{}
	}
	return w.purses[q]
}

// Wishes implements Desk.
func (w *world) Wishes(l task.Lane) []desk.Wish { return slices.Clone(w.line(l).wishes) }

func (w *world) line(l task.Lane) *line {
	if w.lines[l] == nil {
		w.lines[l] = &line{LaneLoad: task.LaneLoad{Lane: l}}
		w.names = append(w.names, l)
	}
	return w.lines[l]
}

// due lets n tasks come due with the next Advance.
func (w *world) due(l task.Lane, n int) { w.line(l).waiting += n }

// govern sets a queue's policy, nil for none. The queue's owner knows it at once.
func (w *world) govern(q QueueName, p *fsmpb.QueuePolicy) {
	w.policies[q] = p
	if purse, limit := w.purses[q], LimitOf(p); purse != nil && !limit.IsNone() {
		purse.unused = min(purse.unused, max(limit.InFlight-purse.inFlight, 0))
	}
}

// policy is govern for a policy that the planner knows at once, too.
func (w *world) policy(q QueueName, p *fsmpb.QueuePolicy) {
	w.govern(q, p)
	w.planner.Policies(w.now, nil)
}

// ask makes a consumer ask for n tasks of a lane; 0 withdraws its demand.
func (w *world) ask(l task.Lane, n int) {
	line := w.line(l.Receiver())
	line.wishes = nil
	if n > 0 {
		w.fence++
		line.wishes = []desk.Wish{{Tag: w.fence, Max: n, Terms: desk.Terms{Lease: time.Second}}}
	}
	w.planner.Asked(w.now, l.Receiver(), n > 0)
}

// lend lends each limited queue up to most of the permits that its limit leaves.
func (w *world) lend(most int) {
	for _, q := range slices.SortedFunc(maps.Keys(w.purses), QueueName.compare) {
		p, limit := w.purses[q], LimitOf(w.policies[q])
		if limit.IsNone() {
			continue
		}
		n := min(p.want-p.unused, limit.InFlight-p.inFlight-p.unused, most)
		if n > 0 {
			p.unused += n
			w.planner.Lent(w.now, q)
		}
	}
}

// end ends the first n running attempts, each as its receiver would.
func (w *world) end(n int, took time.Duration) {
	n = min(n, len(w.running))
	for _, g := range w.running[:n] {
		s := settle{grant: g, begun: true}
		if g.Tag == 0 {
			s.again = w.down[g.Lane.Receiver()]
			s.how = &Ending{Ending: throttle.Ending{Delivered: !s.again, Took: took}}
		}
		w.settles = append(w.settles, s)
	}
	w.running = w.running[n:]
}

// entry makes and applies an entry of all waiting settles, with an Advance if advance is set.
func (w *world) entry(advance bool) {
	ended, before := w.settles, w.inFlight()
	w.settles = nil
	for _, s := range ended {
		w.planner.Ended(w.now, s.grant.Lane, s.how)
	}
	well, room := w.wellReceivers(), w.roomForStrangers()
	plan := w.planner.Plan(w.now, advance)
	w.note(plan)
	w.checkPlan(plan, well, room)
	e := Entry{Proposed: len(ended)+len(plan.Grants) > 0 || advance, Took: time.Millisecond}
	for _, s := range ended {
		w.settle(s)
	}
	for _, g := range plan.Grants {
		l := w.line(laneNamed(g.Lane))
		if (g.Tag != 0) != l.Pulled {
			continue // as in package fsm: consumers take from pulled lanes only, targets from pushed ones
		}
		for range min(int(g.Max), l.Ready) {
			e.Grants = append(e.Grants, w.grant(l, g.Tag))
			l.leave()
		}
	}
	if advance {
		e.Grants = append(e.Grants, w.advance(plan)...)
	}
	e.Lanes = w.loads()
	start, back := w.planner.Applied(w.now, e)
	w.running = append(w.running, start...)
	for _, g := range start {
		w.served[g.Lane]++
		if g.Tag == 0 {
			w.planner.spaces.crowd.Begin(g.Lane)
		}
	}
	for _, g := range back {
		w.settles = append(w.settles, settle{grant: g, again: true})
	}
	w.check(before, start)
}

func (w *world) settle(s settle) {
	l := w.line(s.grant.Lane)
	if s.begun && s.grant.Tag == 0 {
		w.planner.spaces.crowd.End(l.Lane)
	}
	l.Firing--
	w.settled++
	l.changed = true
	if s.again {
		l.wait(task.BegunMs)
	}
}

func (w *world) grant(l *line, tag uint64) task.Grant {
	l.Firing++
	w.granted++
	l.changed = true
	if of := w.line(l.Lane.Receiver()); tag != 0 && len(of.wishes) > 0 && of.wishes[0].Tag == tag {
		of.wishes[0].Max--
	}
	w.fence++
	return task.Grant{Namespace: l.Lane.Namespace, Fence: w.fence, Lane: l.Lane, Tag: tag}
}

// advance pops due tasks and grants them as package fsm does.
func (w *world) advance(plan Plan) (grants []task.Grant) {
	pushes := plan.Attempts
	for _, name := range w.names {
		l := w.lines[name]
		for ; l.waiting > 0; l.waiting-- {
			l.changed = true
			rule := w.rules[queueNamed(name)]
			l.Pulled = name.Destination == "" && rule.GetTarget() == nil
			may := l.Ready == 0 && name.Group == "" && (l.Pulled || pushes > 0)
			tag, ok := uint64(0), false
			if may {
				tag, ok = w.credit(l, plan)
			}
			if !ok {
				w.came++
				l.wait(w.came)
				continue
			}
			if !l.Pulled {
				pushes--
			}
			grants = append(grants, w.grant(l, tag))
		}
	}
	return grants
}

// credit uses up the credit for one grant in a lane.
func (w *world) credit(l *line, plan Plan) (tag uint64, ok bool) {
	for _, c := range plan.Credits {
		if laneNamed(c.Lane) != l.Lane || (c.Tag != 0) != l.Pulled {
			continue
		}
		if c.Grants == 0 {
			return 0, false
		}
		c.Grants--
		return c.Tag, true
	}
	rule := w.rules[queueNamed(l.Lane)]
	held := rule.GetPaused() || !LimitOf(rule).IsNone()
	return 0, !l.Pulled && !held && l.Firing < int(plan.Window)
}

// loads returns the loads that changed since the last call.
func (w *world) loads() (loads []task.LaneLoad) {
	for _, name := range w.names {
		if l := w.lines[name]; l.changed {
			l.changed = false
			loads = append(loads, l.LaneLoad)
		}
	}
	return loads
}

// followPolicies gives the machine the queues' policies.
func (w *world) followPolicies() {
	w.rules = maps.Clone(w.policies)
	for _, name := range w.names {
		l := w.lines[name]
		pulled := name.Destination == "" && w.rules[queueNamed(name)].GetTarget() == nil
		l.changed = l.changed || l.Pulled != pulled
		l.Pulled = pulled
	}
}

// wait adds a ready task to a lane.
func (l *line) wait(due int64) {
	l.Ready++
	l.Waiting[task.DefaultPriority-1]++
	i, _ := slices.BinarySearch(l.dues, due)
	l.dues = slices.Insert(l.dues, i, due)
	l.FirstMs = l.dues[0]
}

// leave takes the first ready task off a lane.
func (l *line) leave() {
	l.Ready--
	l.Waiting[bestOf(l.Waiting)-1]--
	l.dues = l.dues[1:]
	l.FirstMs = 0
	if len(l.dues) > 0 {
		l.FirstMs = l.dues[0]
	}
}

func (w *world) wellReceivers() map[task.Lane]bool {
	well := map[task.Lane]bool{}
	for name, l := range w.planner.lanes {
		well[name] = l.throttle.IsWell()
	}
	return well
}

// roomForStrangers returns the number of attempts that may begin at receivers not known to be well, for each namespace
// and, under "", for all of them together.
func (w *world) roomForStrangers() map[string]int {
	c := w.planner.spaces.crowd
	room := map[string]int{"": max(c.most()-c.all, 0)}
	for name := range w.lines {
		ofSpace := min(2*c.few()-c.spaces[name.Namespace], room[""])
		room[name.Namespace] = max(c.most()-2*c.few()-c.all, ofSpace, 0)
	}
	return room
}

func (w *world) inFlight() map[QueueName]int {
	n := map[QueueName]int{}
	for _, g := range w.running {
		n[queueNamed(g.Lane)]++
	}
	return n
}

// note writes a plan into the log.
func (w *world) note(plan Plan) {
	marshal := proto.MarshalOptions{Deterministic: true}
	for _, g := range plan.Grants {
		b, _ := marshal.Marshal(g)
		fmt.Fprintf(&w.log, "grant %x\n", b)
	}
	for _, c := range plan.Credits {
		b, _ := marshal.Marshal(c)
		fmt.Fprintf(&w.log, "credit %x\n", b)
	}
	fmt.Fprintln(&w.log, "window", plan.Window)
}

// checkPlan judges a plan by the planner's knowledge: receivers not known to be well share the room left.
func (w *world) checkPlan(plan Plan, well map[task.Lane]bool, room map[string]int) {
	tasks, strangers := 0, map[string]int{}
	for _, g := range plan.Grants {
		tasks += int(g.Max)
		if name := laneNamed(g.Lane); g.Tag == 0 && !well[name.Receiver()] {
			strangers[name.Namespace] += int(g.Max)
			strangers[""] += int(g.Max)
		}
	}
	if tasks > maxGrants || len(plan.Grants) > maxGrantOps+1 {
		w.t.Fatalf("%d tasks in %d grants", tasks, len(plan.Grants))
	}
	for namespace, n := range strangers {
		if n > room[namespace] {
			w.t.Fatalf("%d tasks of %q for strangers of which %d may begin", n, namespace, room[namespace])
		}
	}
	if w.planner.spaces.crowd.open() == 0 && plan.Window > 0 {
		w.t.Fatalf("a window of %d for strangers", plan.Window)
	}
}

// check judges the started grants of an entry, and compares the planner's counts with the machine's.
func (w *world) check(before map[QueueName]int, start []task.Grant) {
	w.t.Helper()
	after, firing, pushed := w.inFlight(), 0, 0
	for _, name := range w.names {
		l := w.lines[name]
		firing += l.Firing
		if !l.Pulled {
			pushed += l.Firing
		}
	}
	if s := w.planner.Stats(); s.Firing != firing || s.Pushed != pushed || w.granted-w.settled != firing {
		w.t.Fatalf("%+v, %d under way, %d of them pushed, %d granted, %d settled", s, firing, pushed, w.granted, w.settled)
	}
	attempts := w.attempts()
	for _, g := range start {
		q := queueNamed(g.Lane)
		policy := w.policies[q]
		if limit := LimitOf(policy).InFlight; limit > 0 && after[q] > max(limit, before[q]) {
			w.t.Fatalf("%d under way of %v, which may have %d", after[q], q, limit)
		}
		if policy.GetPaused() {
			w.t.Fatalf("an attempt of %v, which is paused", q)
		}
		l := w.planner.lanes[g.Lane.Receiver()]
		if most, firing := max(l.throttle.Window(), testThrottle.Start)+l.hung, attempts[l.Lane]; g.Tag == 0 && firing > most {
			w.t.Fatalf("%d attempts at %v, which takes %d", firing, g.Lane, most)
		}
		w.checkGroup(g)
	}
	for _, q := range w.planner.queues {
		firing, want := 0, 0
		for _, l := range q.lanes.lanes {
			firing += l.Firing
			want += l.wish
			w.checkParts(l)
		}
		if q.firing != firing || q.want != want {
			w.t.Fatalf("%v: %d under way and %d wanted, but its lanes say %d and %d", q.QueueName, q.firing, q.want, firing, want)
		}
	}
}

// settleDown makes entries while there are settles to make or the planner asks for one, up to atMost.
func (w *world) settleDown(atMost int) {
	for range atMost {
		w.end(len(w.running), time.Millisecond)
		w.lend(1 << 20)
		w.answer(1 << 20)
		at, ok := w.planner.Next(w.now)
		switch {
		case len(w.settles) > 0 || ok && !at.After(w.now):
		case ok:
			w.now = at
		default:
			return
		}
		w.entry(false)
	}
	w.t.Fatalf("not at rest after %d entries: %+v", atMost, w.planner.Stats())
}

func laneNamed(l *fsmpb.Lane) task.Lane {
	return task.Lane{Namespace: l.Namespace, Queue: l.Queue, Destination: l.Destination, Path: l.Path, Group: l.Group}
}
