package shard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// refusalPause is how long an entry waits that Raft turned away for now.
const refusalPause = 2 * time.Millisecond

// proposer makes entries of what waits, one at a time, and hands out what they did.
type proposer struct {
	lead   *leadership
	shard  *Shard
	intake *intake
	book   *book
	alarm  *time.Timer // for the next lane that waits for an instant
	ahead  foresight   // see flaws.go
	done   chan struct{}
}

func newProposer(l *leadership) *proposer {
	p := &proposer{lead: l, shard: l.shard, intake: newIntake(l.shard.cfg.MaxPending), done: make(chan struct{})}
	p.book = newBook(l)
	p.alarm = time.AfterFunc(never, p.intake.requestGrants)
	return p
}

// run proposes until the leadership ends, and then tells all who wait that it has.
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
			p.land(nil, nil, false)
			continue
		}
		began := time.Now()
		got, err := p.commit(ctx, e)
		if err == nil {
			err = got.err
		}
		if err != nil {
			p.fail(e, err)
			continue
		}
		took := time.Since(began)
		p.shard.latencies.add(took)
		p.shard.metrics.committed(e.commands, len(e.data), took)
		p.book.pacing.landed(time.Now(), took, len(got.Grants), e.grants, func() int {
			return waitingBeside(got.Grants, got.Lanes)
		})
		p.finish(e, got)
	}
}

func segmentsOf(w *work) []segment {
	if w == nil {
		return nil
	}
	return w.segments
}

// assemble puts an entry together: Takeover first, settles before the grants that they make room for, users last.
func (p *proposer) assemble(w *work) (*entry, error) {
	now, inOrder := p.shard.clock.now()
	e := newEntry(now, w.bytes)
	e.takeover, e.settles, e.segments = w.takeover, len(w.settles), w.segments
	policy := p.shard.policyAt(now)
	for _, news := range w.news {
		news(p.book)
	}
	if slices.ContainsFunc(w.segments, func(s segment) bool { return s.call.ofUser }) {
		p.book.pacing.usersCall(time.Now())
	}
	var err error
	if w.takeover {
		err = e.add(&fsmpb.Command{Op: &fsmpb.Command_Takeover{
			Takeover: &fsmpb.Takeover{Origin: rand.Uint64() | 1, Policy: policy},
		}})
	}
	if w.rules != nil && err == nil {
		e.rules = w.rules
		err = e.add(&fsmpb.Command{Op: &fsmpb.Command_SetRules{SetRules: &fsmpb.SetRules{Rules: w.rules.rules}}})
	}
	for _, s := range w.settles {
		e.addFramed(s.framed, 1)
		p.book.ended(s.lane, s.how)
	}
	if w.mayGrant && err == nil {
		err = p.addGrants(e, policy)
	}
	if w.advance != nil && !inOrder {
		w.advance.done <- advanced{paused: true}
	} else if w.advance != nil && err == nil {
		e.advance, e.advanceAt = w.advance, e.commands
		policy.Window = p.book.window()
		err = e.add(p.advanceCommand(now, policy))
	}
	e.usersAt = e.commands
	for _, s := range w.segments {
		e.addFramed(s.call.bytes(s.from, s.from+s.n), s.n)
	}
	return e, err
}

func (p *proposer) addGrants(e *entry, policy *fsmpb.Policy) error {
	for _, g := range p.book.grants() {
		e.grants = true
		g.Policy = policy
		if err := e.add(&fsmpb.Command{Op: &fsmpb.Command_Grant{Grant: g}}); err != nil {
			return err
		}
	}
	return nil
}

func (p *proposer) advanceCommand(now time.Time, policy *fsmpb.Policy) *fsmpb.Command {
	to := now.Add(p.shard.latencies.horizon())
	return &fsmpb.Command{Op: &fsmpb.Command_Advance{
		Advance: &fsmpb.Advance{ToMs: to.UnixMilli(), Max: maxAdvance, Policy: policy, Credits: p.book.credits()},
	}}
}

// propose proposes an entry until Raft takes it, and waits until the entry is applied or lost.
func (p *proposer) propose(ctx context.Context, e *entry) (applied, error) {
	limit := newStandstill(p.shard.applier, p.shard.cfg.Timing.Stuck)
	defer limit.stop()
	for {
		got, err := p.commitOnce(e, limit)
		if !refusedForNow(err) {
			return got, err
		}
		if !sleep(ctx, refusalPause) {
			return applied{}, errEnded
		}
		select {
		case <-limit.rings:
			if limit.isReached() {
				p.stuck(err)
			}
		default:
		}
	}
}

// commitOnce is the only place that proposes. It waits in another goroutine, because Raft never answers an entry that
// was committed but not yet applied when it was shut down.
func (p *proposer) commitOnce(e *entry, limit *standstill) (applied, error) {
	future := make(chan raft.ApplyFuture, 1)
	go func() {
		f := p.shard.raft.Apply(e.data, 0)
		_ = f.Error() // waits; read again below
		future <- f
	}()
	for {
		select {
		case f := <-future:
			if err := f.Error(); err != nil {
				return applied{}, err
			}
			return f.Response().(applied), nil
		case <-p.shard.raftDown:
			return applied{}, raft.ErrRaftShutdown
		case <-limit.rings:
			if limit.isReached() {
				p.stuck(nil)
			}
		}
	}
}

// stuck gives the group up: a leader that keeps its followers but commits nothing would keep the shard from working for
// ever (hashicorp/raft issue 696 is one way to get there).
func (p *proposer) stuck(last error) {
	err := fmt.Errorf("shard %d: as leader of term %d (0: not taken over yet) this node has committed nothing for %v",
		p.shard.cfg.ID, p.lead.term.Load(), p.shard.cfg.Timing.Stuck)
	if last != nil {
		err = fmt.Errorf("%w: %w", err, last)
	}
	p.shard.fatal(err)
}

// fail answers an entry that did not commit, or may not have, and ends the leadership: Raft has ended it already, or is
// about to.
func (p *proposer) fail(e *entry, err error) {
	p.intake.answer(e.segments, nil, p.shard.proposalError(err))
	if e.advance != nil {
		e.advance.done <- advanced{ended: true}
	}
	p.lead.end(err)
}

// finish hands out what an entry did.
func (p *proposer) finish(e *entry, got applied) {
	p.intake.answer(e.segments, repliesOf(got.Results[e.usersAt:]), nil)
	if e.takeover {
		p.lead.open(got.term)
	}
	if got.term != p.lead.term.Load() {
		p.lead.end(fmt.Errorf("lost in term %d and won again in %d", p.lead.term.Load(), got.term))
		// The Takeover of the new leadership renews its grants, but not its leases.
		p.land(nil, leased(got.Grants), false)
		return
	}
	if e.rules != nil {
		close(e.rules.done)
	}
	if e.takeover {
		p.book.begin(p.shard.machine.Loads())
	}
	p.land(got.Lanes, got.Grants, e.takeover)
	if e.advance != nil {
		e.advance.done <- advanced{more: got.Results[e.advanceAt].More}
	}
	p.lead.ticker.look()
}

// land brings the book up to the entry, starts what it granted, and sees whether more can be granted already.
func (p *proposer) land(loads []task.LaneLoad, grants []task.Grant, renewed bool) {
	stand, back := p.book.applied(loads, grants, renewed)
	p.lead.desk.Granted(leased(grants))
	p.tellReady(loads)
	p.lead.firing.add(stand, renewed)
	p.lead.firing.giveBack(back)
	p.answerLooks()
	p.lookAgain()
	p.shard.metrics.broken.Set(float64(p.book.broken))
}

// lookAgain has the next entry grant what may be granted already, or one that is made at the instant from which on
// something may.
func (p *proposer) lookAgain() {
	now := time.Now()
	next, ok := p.book.wake(now)
	if p.book.pending() {
		if !p.book.pacing.isResting(now) {
			p.intake.requestGrants()
		} else if rest := p.book.pacing.until; !ok || rest.Before(next) {
			next, ok = rest, true
		}
	}
	if ok {
		p.alarm.Reset(next.Sub(now))
	}
}

// tellReady has consumers know how much waits in the lanes that an entry has changed.
func (p *proposer) tellReady(loads []task.LaneLoad) {
	for _, load := range loads {
		if load.Pulled {
			p.lead.desk.Ready(load.Lane, load.Ready)
		}
	}
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
