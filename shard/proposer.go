package shard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/lend"
	"github.com/belfryhq/belfry/raftgroup"
	"github.com/belfryhq/belfry/shard/dispatch"
)

// proposer assembles entries from the waiting work, commits one at a time, and distributes their results.
type proposer struct {
	lead      *leadership
	shard     *Shard
	intake    *intake
	planner   *dispatch.Planner
	borrowers map[dispatch.QueueName]*lend.Borrower
	alarm     *time.Timer // set to the instant from which a plan may grant more
	broken    atomic.Pointer[brokenReceivers]
	nextPlan  atomic.Int64 // that instant in Unix milliseconds, for a dev clock; never: only an event changes it
	done      chan struct{}
}

func newProposer(l *leadership) *proposer {
	p := &proposer{
		lead: l, shard: l.shard, intake: newIntake(l.shard.cfg.MaxPending, l.shard.cfg.Node.Weight),
		borrowers: map[dispatch.QueueName]*lend.Borrower{}, done: make(chan struct{}),
	}
	p.broken.Store(&brokenReceivers{})
	p.nextPlan.Store(never)
	p.planner = newPlanner(p)
	p.alarm = time.AfterFunc(never, p.intake.requestGrants)
	return p
}

func newPlanner(p *proposer) *dispatch.Planner {
	cfg := p.shard.cfg
	return dispatch.New(dispatch.Config{
		Throttle: cfg.Policy.throttle(), Crowd: cfg.Crowd, Policies: cfg.Policies, Owners: p, Desk: p.lead.desk,
		Weights: cfg.Node.Weight,
	})
}

// run proposes until the leadership ends, then tells all waiting callers.
func (p *proposer) run(ctx context.Context) {
	defer close(p.done)
	defer p.retire()
	for {
		w := p.intake.take(ctx)
		if w == nil || ctx.Err() != nil {
			p.intake.answer(segmentsOf(w), nil, p.shard.notLeader())
			p.intake.close(p.shard.notLeader())
			return
		}
		e, err := p.assemble(w)
		if err != nil {
			p.fail(e, err)
			continue
		}
		if e.commands == 0 {
			p.land(dispatch.Entry{})
			continue
		}
		began := time.Now()
		got, err := p.commit(ctx, e)
		if err != nil {
			p.fail(e, err)
			continue
		}
		took := time.Since(began)
		p.shard.latencies.add(took)
		p.shard.metrics.committed(e.commands, len(e.data), took)
		if w.within != full && e.commands == w.commands() {
			p.intake.timed(w, took)
		}
		if len(w.segments) > 1 {
			p.intake.pause(p.shard.latencies.pause(took))
		}
		p.finish(e, got, took)
	}
}

func segmentsOf(w *work) []segment {
	if w == nil {
		return nil
	}
	return w.segments
}

// assemble builds an entry: the leader's own commands first, users' commands last.
func (p *proposer) assemble(w *work) (*entry, error) {
	now, inOrder := p.shard.clock.now()
	e := newEntry(now, w.bytes)
	e.segments = w.segments
	if w.advance == nil && w.mayGrant && inOrder && p.lead.ticker.mayRide(now) {
		w.advance = &advance{}
	}
	if slices.ContainsFunc(w.segments, func(s segment) bool { return s.call.ofUser }) {
		p.planner.Called(p.shard.dev.now())
	}
	var err error
	if e.planned = !w.isUsers(); e.planned {
		if w.advance != nil && !inOrder {
			w.advance.answer(advanced{paused: true})
			w.advance = nil
		}
		err = p.addOwn(e, w, p.plan(w), now)
	}
	e.usersAt = e.commands
	for _, s := range w.segments {
		e.addFramed(s.call.bytes(s.from, s.from+s.n), s.n)
		e.raise(s.call.version)
	}
	return e, err
}

// plan tells the planner the content of the entry and returns the plan of its grants.
func (p *proposer) plan(w *work) dispatch.Plan {
	now := p.shard.dev.now()
	p.planner.Isolates(p.shard.cfg.Node.MayWrite(fsm.IsolationSince) == nil)
	for _, n := range w.news {
		n(p.planner, now)
	}
	for _, s := range w.settles {
		p.planner.Ended(now, s.lane, s.how)
	}
	if !w.mayGrant || p.lead.firing.isPaused() {
		return dispatch.Plan{}
	}
	return p.planner.Plan(now, w.advance != nil)
}

// addOwn appends the leader's own commands: the Takeover first, settles before the grants that they make room for.
func (p *proposer) addOwn(e *entry, w *work, plan dispatch.Plan, now time.Time) error {
	policy := p.shard.cfg.Policy.command(p.shard.machine.TombstoneBytes())
	if e.takeover = w.takeover; e.takeover {
		err := e.add(&fsmpb.Command{Op: &fsmpb.Command_Takeover{
			Takeover: &fsmpb.Takeover{Origin: rand.Uint64() | 1, Policy: policy},
		}})
		if err != nil {
			return err
		}
	}
	if e.rules = w.rules; e.rules != nil {
		err := e.add(&fsmpb.Command{Op: &fsmpb.Command_SetRules{SetRules: &fsmpb.SetRules{Rules: w.rules.rules}}})
		if err != nil {
			return err
		}
	}
	if e.series = w.series; e.series != nil {
		e.addFramed(e.series.framed, e.series.commands)
		e.raise(e.series.version)
	}
	e.settles, e.settlesAt = w.settles, e.commands
	for _, s := range w.settles {
		e.addFramed(s.framed, 1)
		e.raise(s.version)
	}
	for _, op := range plan.Isolations {
		if err := e.add(&fsmpb.Command{Op: &fsmpb.Command_Isolate{Isolate: op}}); err != nil {
			return err
		}
	}
	for _, g := range plan.Grants {
		g.Policy = policy
		if err := e.add(&fsmpb.Command{Op: &fsmpb.Command_Grant{Grant: g}}); err != nil {
			return err
		}
	}
	if w.advance == nil {
		return nil
	}
	e.advance, e.advanceAt = w.advance, e.commands
	policy.Window = plan.Window
	to := now.Add(p.lead.ticker.reach())
	return e.add(&fsmpb.Command{Op: &fsmpb.Command_Advance{
		Advance: &fsmpb.Advance{
			ToMs: to.UnixMilli(), Max: maxPops, Policy: policy, Credits: plan.Credits, Attempts: plan.Attempts,
		},
	}})
}

// propose proposes an entry and waits until it is applied or lost.
func (p *proposer) propose(ctx context.Context, e *entry) (applied, error) {
	answer, err := p.shard.group.Commit(ctx, e.data)
	if err != nil {
		return applied{}, err
	}
	return answer.(applied), nil
}

// fail answers an entry that did not commit, or may not have, and ends the leadership. Raft has ended it already or is
// about to.
func (p *proposer) fail(e *entry, err error) {
	if e.advance != nil {
		e.advance.answer(advanced{ended: true})
	}
	p.lead.end(err)
	var lost *raftgroup.LostError
	if !errors.As(err, &lost) {
		p.intake.answer(e.segments, nil, p.errorOf(err))
		return
	}
	p.intake.close(p.shard.notLeader()) // before the entry is answered, so that no further command of its calls is taken
	p.shard.applier.wanted.Add(1)
	p.shard.workers.Go(func() {
		defer p.shard.applier.wanted.Add(-1)
		p.answerLost(e, lost)
	})
}

// outcomeWithin is the number of election timeouts for which the callers of a lost entry wait to learn its outcome: by
// then there is another leader, unless a majority is away.
const outcomeWithin = 6

// answerLost answers the users' commands of an entry that was under way when the leadership ended, as soon as this
// replica knows whether the next leader has kept the entry. The attempts that the entry granted are the next leader's:
// its Takeover grants them anew.
func (p *proposer) answerLost(e *entry, lost *raftgroup.LostError) {
	ctx, cancel := context.WithTimeout(context.Background(), outcomeWithin*p.shard.cfg.Timing.Election)
	defer cancel()
	answer, err := lost.Outcome(ctx)
	if err != nil {
		p.intake.answer(e.segments, nil, p.errorOf(err))
		return
	}
	p.intake.answer(e.segments, repliesOf(answer.(applied).Results[e.usersAt:]), nil)
}

// finish distributes an entry's results. took is the time from its proposal until it was applied.
func (p *proposer) finish(e *entry, got applied, took time.Duration) {
	p.intake.answer(e.segments, repliesOf(got.Results[e.usersAt:]), nil)
	if len(e.settles) > 0 {
		p.forwardMoved(e.settles, got.Results[e.settlesAt:])
		p.shard.attempts.settled(e.settles)
	}
	if e.takeover {
		p.lead.open(got.term)
	}
	if got.term != p.lead.term.Load() {
		p.lead.end(fmt.Errorf("lost in term %d and won again in %d", p.lead.term.Load(), got.term))
		// The Takeover of the new leadership renews its grants, but not its leases.
		p.land(dispatch.Entry{Grants: leased(got.Grants)})
		return
	}
	if e.rules != nil {
		close(e.rules.done)
	}
	if e.series != nil {
		close(e.series.done)
	}
	if got.Wanting {
		p.lead.extender.look()
	}
	if e.takeover {
		p.planner.Begin(p.shard.dev.now(), p.shard.machine.Loads(), p.lead.heldUnknown())
	}
	landed := dispatch.Entry{Proposed: true, Took: took, Lanes: got.Lanes, Grants: got.Grants, Renewed: e.takeover}
	if e.planned || !p.planner.Passed(landed) {
		p.land(landed)
	} else {
		p.shard.dev.stir()
	}
	if e.advance != nil {
		e.advance.answer(advanced{more: got.Results[e.advanceAt].More})
	}
	p.intake.ride(slices.ContainsFunc(got.Lanes, func(l task.LaneLoad) bool { return l.Ready > 0 }))
	p.lead.ticker.look()
}

// land tells the planner of an applied entry, starts the entry's grants, and schedules the next entry that may grant
// more.
func (p *proposer) land(e dispatch.Entry) {
	start, back := p.planner.Applied(p.shard.dev.now(), e)
	p.lead.desk.Granted(leased(e.Grants))
	p.tellReady(e.Lanes)
	if e.Renewed {
		start = p.lead.firing.renew(start)
	}
	p.lead.firing.add(start, e.Renewed)
	p.lead.firing.giveBack(back)
	stats := p.planner.Stats()
	if stats.Looks > 0 {
		p.answerLooks()
	}
	p.planNext()
	p.tellBroken(stats.Broken)
	p.shard.dev.stir()
}

// answerLooks tells consumers that their lanes hold no task for them. It tells none while the clock is unsure, because
// a task may be due.
func (p *proposer) answerLooks() {
	now, inOrder := p.shard.clock.now()
	next, ok := p.shard.machine.Next()
	switch {
	case !inOrder:
		next = math.MinInt64
	case !ok:
		next = math.MaxInt64
	}
	for _, lane := range p.planner.Empty(now.UnixMilli(), next) {
		p.lead.desk.Nothing(lane)
	}
}

// planNext schedules the next entry for the instant at which it may grant more. While attempts are held back none may:
// its grants would be given back, and granted again in the entry after it.
func (p *proposer) planNext() {
	now := p.shard.dev.now()
	at, ok := p.planner.Next(now)
	p.rests(now, at, ok)
	switch {
	case !ok || p.lead.firing.isPaused():
	case at.After(now):
		p.alarm.Reset(at.Sub(now))
	default:
		p.intake.requestGrants()
	}
}

// rests records, for a dev clock, the instant from which the next plan may grant a task; ok is false if only an event
// changes that.
func (p *proposer) rests(now, at time.Time, ok bool) {
	switch {
	case p.shard.cfg.DevClock == nil:
	case p.planner.MayHear():
		p.nextPlan.Store(0)
	case !ok:
		p.nextPlan.Store(never)
	case at.After(now):
		p.nextPlan.Store(notBefore(at))
	default:
		p.nextPlan.Store(0)
	}
}

// tellReady tells the desk the number of waiting tasks in each pulled lane that an entry has changed.
func (p *proposer) tellReady(loads []task.LaneLoad) {
	for _, load := range loads {
		if load.Pulled {
			receiver := load.Lane.Receiver()
			p.lead.desk.Ready(receiver, p.planner.Waiting(receiver), load.NextMs)
		}
	}
}

// brokenReceivers are the receivers whose breakers were open at an instant, by queue.
type brokenReceivers struct {
	at      time.Time
	lanes   int
	byQueue map[dispatch.QueueName][]*fsmpb.Broken
}

// brokenAge is the age from which on the broken receivers are listed anew.
const brokenAge = time.Second

// tellBroken keeps the list of broken receivers up to date, for readers on other goroutines.
func (p *proposer) tellBroken(lanes int) {
	now, last := p.shard.dev.now(), p.broken.Load()
	if lanes == last.lanes && (lanes == 0 || now.Sub(last.at) < brokenAge) {
		return
	}
	p.shard.metrics.broken.Set(float64(lanes))
	next := &brokenReceivers{at: now, lanes: lanes, byQueue: map[dispatch.QueueName][]*fsmpb.Broken{}}
	for _, b := range p.planner.Broken() {
		next.byQueue[b.Queue] = append(next.byQueue[b.Queue], &fsmpb.Broken{
			Receiver: b.Receiver, Path: b.Path, SinceMs: b.Since.UnixMilli(), LastError: b.LastError,
			Waiting: uint64(b.Waiting),
		})
	}
	p.broken.Store(next)
}

func (p *proposer) retire() {
	p.alarm.Stop()
	p.lead.desk.Granted(nil)
	p.shard.metrics.broken.Set(0)
}

func repliesOf(results []*fsmpb.Result) []task.Reply {
	replies := make([]task.Reply, len(results))
	for i, r := range results {
		replies[i].Result = r
	}
	return replies
}
