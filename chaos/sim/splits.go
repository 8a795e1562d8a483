package sim

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// splitter makes the slots of a run move. Operators begin operations on slots, each at its time. Meanwhile one node
// after the other leads the control group, and drives the moves with the code of production.
type splitter struct {
	world *World
	load  *driver

	scripts sync.WaitGroup // of bursts
	next    int            // number of the next script
}

func newSplitter(w *World, l *driver) *splitter {
	return &splitter{world: w, load: l, next: w.cfg.Scripts}
}

// run plays the operations of a course, and returns when their scripts are over. The moves may go on.
func (s *splitter) run(course *course) {
	if len(course.shifts) == 0 {
		return
	}
	s.world.wg.Go(s.lead)
	s.world.wg.Go(s.burst)
	s.world.wg.Go(s.watchOwners)
	s.operate(course)
	s.scripts.Wait()
}

// operate begins the operations of a course. Each waits for the end of the one before.
func (s *splitter) operate(course *course) {
	for i, sh := range course.shifts {
		if !s.world.sleep(time.Until(course.begin.Add(sh.at))) || !s.end() {
			return
		}
		op := sh.operation(s.world.now(), fmt.Sprintf("shift-%d", i), uint32(s.world.cfg.MostShards))
		if control.PlanSlots(s.world.now(), op) == nil && leavesSlots(s.world.now(), op) {
			s.begin(op)
		}
	}
}

// begin begins an operation.
func (s *splitter) begin(op *clusterpb.Operation) {
	entry := &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_Begin{Begin: &clusterpb.Begin{Operation: op}}}
	if err := s.world.decide(entry, always); err != nil {
		s.world.problem("operation %v does not begin: %v", op, err)
		return
	}
	s.world.count(func(f *Figures) { f.Operations++ })
}

// end waits until no slot moves and none is to move. It reports a problem if that takes too long.
func (s *splitter) end() bool {
	w := s.world
	for end := time.Now().Add(6 * w.cfg.pace.recovery()); time.Now().Before(end); {
		if !isShifting(w.now()) {
			return true
		}
		if !w.sleep(w.cfg.pace.heartbeat / 10) {
			return false
		}
	}
	w.problem("the moves of slots do not end: %v, %v", w.now().Operations, w.now().SlotMoves)
	return false
}

// isShifting reports whether slots move, or are to move.
func isShifting(state *clusterpb.ControlState) bool {
	return len(state.SlotMoves) > 0 || running(state) != nil
}

// running returns the operation under way, or nil.
func running(state *clusterpb.ControlState) *clusterpb.Operation {
	for _, op := range state.Operations {
		if op.State == clusterpb.OperationState_OPERATION_STATE_RUNNING {
			return op
		}
	}
	return nil
}

// whileShifting calls do again and again while slots move, with a pause after each call, until the world ends.
func (w *World) whileShifting(pause func() time.Duration, do func(state *clusterpb.ControlState)) {
	for {
		state, changed := w.decisions.Watch()
		if !isShifting(state) {
			select {
			case <-changed:
				continue
			case <-w.ctx.Done():
				return
			}
		}
		do(state)
		if !w.sleep(pause()) {
			return
		}
	}
}

// lead lets one node after the other lead the control group while slots move.
func (s *splitter) lead() {
	w, rng := s.world, s.world.rng("control", 0)
	pause := func() time.Duration { return load.Between(rng, time.Millisecond, time.Second) }
	w.whileShifting(pause, func(*clusterpb.ControlState) {
		p := w.nodes[rng.IntN(len(w.nodes))].running()
		if p == nil {
			return
		}
		length, linger := load.Between(rng, 5*time.Millisecond, 10*time.Second), time.Duration(0)
		if rng.IntN(2) == 0 {
			linger = load.Between(rng, time.Millisecond, 5*time.Second)
		}
		s.reign(&reign{world: w, process: p, rng: rand.New(rand.NewPCG(rng.Uint64(), 0))}, length, linger)
	})
}

// reign plays a reign that lasts for the given time, or until no slot moves or the process ends. A leader that lingers
// does not notice the end of its reign: its calls go on, beside those of the next leader.
func (s *splitter) reign(r *reign, length, linger time.Duration) {
	w, p := s.world, r.process
	ctx, end := context.WithCancel(p.host.Life())
	context.AfterFunc(w.ctx, end)
	w.count(func(f *Figures) { f.Reigns++ })
	held := seat{r}
	mover := control.NewSlotMover(held, faulty{w, p.router}, p.logger())
	w.wg.Go(func() { mover.Run(ctx) })
	w.wg.Go(func() { s.reconcile(ctx, held) })
	w.reignFor(ctx, length)
	r.depose()
	time.AfterFunc(linger, end)
}

// reignFor waits for a time, or until no slot moves or ctx ends.
func (w *World) reignFor(ctx context.Context, length time.Duration) {
	over := time.After(length)
	for {
		state, changed := w.decisions.Watch()
		if !isShifting(state) {
			return
		}
		select {
		case <-changed:
		case <-over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// reconcile begins the moves of the operation under way and ends the operation, as the reconciler does.
func (s *splitter) reconcile(ctx context.Context, held seat) {
	for ctx.Err() == nil {
		state, changed := held.Watch()
		if entry := nextEntry(state); entry != nil && held.Propose(ctx, entry) == nil {
			continue
		}
		again := time.NewTimer(time.Second)
		select {
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
		}
		again.Stop()
	}
}

func nextEntry(state *clusterpb.ControlState) *clusterpb.ControlEntry {
	op := running(state)
	switch {
	case op == nil:
		return nil
	case control.HaveMoved(state, op):
		return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_End{End: &clusterpb.End{Id: op.Id, EndedMs: 1}}}
	}
	entry, _ := control.NextSlotMove(state) // without an entry the operation waits for the moves under way
	return entry
}

// burst starts scripts of the load about ids in slots that begin to move, so that calls meet each step of the move.
func (s *splitter) burst() {
	w, rng, seen := s.world, s.world.rng("burst", 0), uint64(0)
	for {
		state, changed := w.decisions.Watch()
		for _, m := range state.SlotMoves {
			if m.Number > seen && m.Tries == 0 {
				s.meet(rng, m)
			}
		}
		seen = max(seen, state.LastSlotMove)
		select {
		case <-changed:
		case <-w.ctx.Done():
			return
		}
	}
}

// meet starts scripts about ids in the slots of a move.
func (s *splitter) meet(rng *rand.Rand, m *clusterpb.SlotMove) {
	w := s.world
	for range w.cfg.Burst {
		for s.next++; !isIn(m, task.Slot("", prefix+strconv.Itoa(s.next))); {
			s.next++
		}
		i, at := s.next, load.Between(rng, time.Millisecond, 2*time.Second)
		s.scripts.Go(func() {
			if w.sleep(at) {
				s.load.player.Play(w.ctx, i)
			}
		})
	}
}

func isIn(m *clusterpb.SlotMove, slot uint32) bool {
	for _, r := range m.Ranges {
		if r.First <= slot && slot < r.End {
			return true
		}
	}
	return false
}

// shift is an operation on slots.
type shift struct {
	at   time.Duration // after the beginning of the course
	seed uint64        // of the operation's own choices
}

// drawShifts adds operations on slots to a course, from a source of their own: the other parts of a seed stay as they
// are without moves.
//
// A move takes a second or two. So three operations in four begin in an episode, or shortly before, and one or two
// strikes at the leaders of the move join the episode. In clusters that live for weeks all operations begin while
// nothing is broken: their faults last for hours, and so would the moves.
func (c *course) drawShifts(cfg Config, rng *rand.Rand) {
	for range cfg.Operations {
		sh := shift{at: time.Duration(rng.Int64N(int64(cfg.Span))), seed: rng.Uint64()}
		if len(c.episodes) > 0 && cfg.pace.name != "weeks" && rng.IntN(4) > 0 {
			e := rng.IntN(len(c.episodes))
			sh.at = c.episodes[e].at + time.Duration(rng.Int64N(int64(c.episodes[e].until-c.episodes[e].at)))
			for range 1 + rng.IntN(2) {
				c.aim(e, sh.at, cfg.pace, rng)
			}
		} else if cfg.pace.name == "weeks" {
			sh.at = c.calmAt(sh.at, cfg.pace)
		}
		c.shifts = append(c.shifts, sh)
	}
	slices.SortFunc(c.shifts, func(a, b shift) int { return cmp.Compare(a.at, b.at) })
	slices.Sort(c.moments)
}

// aim adds a strike at the leaders of a move to episode e, just before the operation begins. The episode may grow, up
// to half of the calm before the next one.
func (c *course) aim(e int, begin time.Duration, p pace, rng *rand.Rand) {
	ep := &c.episodes[e]
	s := strike{
		kind: aimed[rng.IntN(len(aimed))], hold: load.Between(rng, 5*time.Second, 20*time.Second),
		seed:  rng.Uint64(),
		after: max(0, begin-ep.at-time.Second),
	}
	s.hold = min(s.hold, ep.until-ep.at+p.calm[0]/2-s.after)
	ep.strikes = append(ep.strikes, s)
	ep.until = max(ep.until, ep.at+s.after+s.hold)
	c.moments = append(c.moments, ep.at+s.after, ep.at+s.after+s.hold)
}

// calmAt returns the first instant from at on that is no part of an episode or of the recovery after it.
func (c *course) calmAt(at time.Duration, p pace) time.Duration {
	for _, e := range c.episodes {
		if e.at-time.Minute < at && at < e.until+p.recovery() {
			at = e.until + p.recovery()
		}
	}
	return at
}

// operation returns the operation on slots, as the state allows it: a split in half of all cases, else slots that move
// to any shard, or slots spread evenly over the shards and perhaps further ones.
func (s shift) operation(state *clusterpb.ControlState, id string, most uint32) *clusterpb.Operation {
	rng := rand.New(rand.NewPCG(s.seed, 2))
	op := &clusterpb.Operation{Id: id, BeganMs: 1}
	shards := uint32(len(state.Shards))
	op.Shard = 1 + rng.Uint32N(shards)
	switch n := rng.IntN(4); {
	case n < 2 && shards < most || shards == 1:
		op.Kind = clusterpb.OperationKind_OPERATION_KIND_SPLIT
	case n == 2:
		op.Kind, op.Shard = clusterpb.OperationKind_OPERATION_KIND_BALANCE, 0
		op.Shards = shards + rng.Uint32N(most-shards+1)
	default:
		op.Kind = clusterpb.OperationKind_OPERATION_KIND_MOVE_SLOTS
		first := rng.Uint32N(task.Slots - task.Slots/8)
		op.Slots = []*fsmpb.SlotRange{{First: first, End: first + 1 + rng.Uint32N(task.Slots/8)}}
	}
	return op
}

// leavesSlots reports whether each shard that has slots has some after an operation. The checks await writes of each
// shard.
func leavesSlots(state *clusterpb.ControlState, op *clusterpb.Operation) bool {
	before, after := map[uint32]int{}, map[uint32]int{}
	for _, r := range state.Slots {
		before[r.Shard] += int(r.End - r.First)
		after[r.Shard] += int(r.End - r.First)
		for _, aim := range op.Aims {
			n := max(0, int(min(r.End, aim.End))-int(max(r.First, aim.First)))
			after[r.Shard] -= n
			after[aim.Shard] += n
		}
	}
	for shard := range before {
		if before[shard] > 0 && after[shard] == 0 {
			return false
		}
	}
	return true
}
