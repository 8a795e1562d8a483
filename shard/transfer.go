package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/internal/wait"
)

// closeEnough is the number of log entries that a voter may lack when it is chosen as the next leader. The rest reaches
// it while nothing is proposed.
const closeEnough = 64

// Transfer gives the leadership to another voter. Calls wait meanwhile, and continue here if the transfer fails.
func (s *Shard) Transfer(ctx context.Context, to string) error {
	l := s.current()
	if l == nil {
		return s.notLeader()
	}
	return l.transfer(ctx, to, s.cfg.Timing.Patience, true)
}

// politeDrain is the time for which a transfer that is not urgent holds new attempts back. It is too short to be
// noticed.
const politeDrain = 20 * time.Millisecond

// errAttemptsRunning is the reason why a transfer that is not urgent, or has no time left, gives up.
var errAttemptsRunning = errors.New("attempts are running that the next leader would repeat")

// transfer gives the leadership to the node to. It waits up to patience for a moment without running attempts, because
// the next leader would repeat running ones. An urgent transfer then holds new attempts back until the running ones
// have ended, and goes on after Timing.Drain even if they do not. If ctx ends before that, the leadership stays. An
// urgent transfer takes the place of a transfer that is not urgent.
func (l *leadership) transfer(ctx context.Context, to string, patience time.Duration, urgent bool) error {
	ctx, done, err := l.turns.take(ctx, urgent)
	if err != nil {
		return err
	}
	defer done()
	if l.ctx.Err() != nil {
		return l.shard.notLeader() // the transfer before this one succeeded
	}
	if to == l.shard.cfg.NodeID || !slices.Contains(l.shard.Voters(), to) {
		return fmt.Errorf("node %s is no other voter of shard %d", to, l.shard.cfg.ID)
	}
	l.calm(ctx, patience)
	l.firing.pause()
	drain := politeDrain
	if urgent {
		drain = l.shard.cfg.Timing.Drain
	}
	switch calm := l.calm(ctx, drain); {
	case calm, urgent && ctx.Err() == nil:
		err = l.handOver(ctx, to, urgent)
	default:
		err = errAttemptsRunning
	}
	if err != nil {
		l.firing.resume()
		return fmt.Errorf("transfer to node %s: %w", to, err)
	}
	return nil
}

var (
	errTransferring = errors.New("another transfer is under way")
	errOvertaken    = errors.New("an urgent transfer takes the place of this one")
)

// turns lets one transfer of a leadership run at a time.
type turns struct {
	busy chan struct{} // capacity 1: holds a value during a transfer

	mu     sync.Mutex
	urgent int                     // urgent transfers that wait or run
	yield  context.CancelCauseFunc // ends the transfer under way, if that one is not urgent
}

func newTurns() *turns { return &turns{busy: make(chan struct{}, 1)} }

// take waits for the turn of an urgent transfer, after ending one that is not urgent. A transfer that is not urgent
// gets a free turn only. Its context ends when an urgent one wants the turn. The caller must call done.
func (t *turns) take(ctx context.Context, urgent bool) (_ context.Context, done func(), _ error) {
	if !urgent || flawRefusesTransfer() {
		return t.tryTake(ctx)
	}
	t.mu.Lock()
	t.urgent++
	if t.yield != nil {
		t.yield(errOvertaken)
	}
	t.mu.Unlock()
	left := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.urgent--
	}
	select {
	case t.busy <- struct{}{}:
		return ctx, func() { <-t.busy; left() }, nil
	case <-ctx.Done():
		left()
		return nil, nil, fmt.Errorf("%w: %w", errTransferring, context.Cause(ctx))
	}
}

func (t *turns) tryTake(ctx context.Context) (_ context.Context, done func(), _ error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.urgent > 0 {
		return nil, nil, errTransferring
	}
	select {
	case t.busy <- struct{}{}:
	default:
		return nil, nil, errTransferring
	}
	ctx, t.yield = context.WithCancelCause(ctx)
	return ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.yield(nil)
		t.yield = nil
		<-t.busy
	}, nil
}

// calm waits up to patience for a moment without running attempts, and reports whether it came.
func (l *leadership) calm(ctx context.Context, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return l.shard.attempts.wait(ctx) == nil
}

// handOver stops proposing before Raft's transfer begins. A transfer during which entries must still be replicated can
// leave Raft refusing entries for ever (hashicorp/raft issue 696).
func (l *leadership) handOver(ctx context.Context, to string, urgent bool) error {
	ctx, cancel := context.WithTimeout(ctx, handOverFor*l.shard.cfg.Timing.Election)
	defer cancel()
	err := l.proposer.intake.flush(ctx)
	if err == nil {
		err = l.levelWith(ctx, to, urgent)
	}
	if err == nil {
		err = l.giveTo(ctx, to)
	}
	if err != nil {
		l.proposer.intake.resume()
	}
	return err
}

// politePart is the divisor of the election timeout, itself some round trips, that limits how long a transfer that is
// not urgent keeps calls waiting for the last entries to reach the other voter.
const politePart = 6

func (l *leadership) levelWith(ctx context.Context, to string, urgent bool) error {
	if !urgent {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.shard.cfg.Timing.Election/politePart)
		defer cancel()
	}
	return l.shard.group.CatchUp(ctx, to)
}

// handOverFor is the number of election timeouts for which a transfer may keep calls waiting.
const handOverFor = 4

// giveTo runs Raft's transfer while nothing is proposed. It is not ended half-way, because Raft would go on with it and
// refuse the next one.
func (l *leadership) giveTo(ctx context.Context, to string) error {
	s := l.shard
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handOverFor*s.cfg.Timing.Election)
	defer cancel()
	if err := s.group.Transfer(ctx, to); err != nil {
		return err
	}
	select {
	case <-l.ctx.Done():
		return nil
	case <-ctx.Done():
		return errors.New("this node still leads")
	}
}

// goHome keeps the leadership on its way to the preferred node, also when another node is preferred meanwhile.
func (l *leadership) goHome(ctx context.Context) {
	for ctx.Err() == nil {
		home, changed := l.shard.home.watch()
		ctx, stop := context.WithCancel(ctx)
		var going sync.WaitGroup
		going.Go(func() { l.goTo(ctx, home) })
		select {
		case <-changed:
		case <-ctx.Done():
		}
		stop()
		going.Wait()
	}
}

// goTo gives the leadership to a voter once that node has been well for a while. The pause doubles after each failed
// transfer.
func (l *leadership) goTo(ctx context.Context, home string) {
	s := l.shard
	calm := s.cfg.Timing.Calm
	if home == "" || home == s.cfg.NodeID {
		return
	}
	var pause time.Duration
	for wait.For(ctx, pause) && l.awaitThere(ctx, home, calm+l.homingTurn()) {
		if !l.isWell(home, l.term.Load()) || !slices.Contains(s.Voters(), home) {
			continue
		}
		if err := l.transfer(ctx, home, calm, false); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Info("leadership not given to its preferred node", "to", home, "err", err)
			pause = min(max(2*pause, calm), time.Minute)
		}
	}
}

// awaitThere waits until a node has been in touch for the duration long without a break. It returns false if the
// leadership ends first. A node that has just started must apply its whole log, and would answer no call before that as
// a leader.
func (l *leadership) awaitThere(ctx context.Context, node string, long time.Duration) bool {
	for since := time.Now(); time.Since(since) < long; {
		if !wait.For(ctx, l.shard.cfg.Timing.Calm/homingTurns) {
			return false
		}
		if !l.isThere(node, l.term.Load()) {
			since = time.Now()
		}
	}
	return ctx.Err() == nil
}

// homingTurns is the number of turns in which the shards of a returning node move home. Calls wait during a transfer,
// and would wait longer if a third of all shards moved at the same moment.
const homingTurns = 8

func (l *leadership) homingTurn() time.Duration {
	return l.shard.cfg.Timing.Calm / homingTurns * time.Duration(l.shard.cfg.ID%homingTurns)
}

// isWell reports whether a voter could lead: it is fit, it answers, and its log was close to this one's at its last
// answer. Entries appended since its last answer do not count, because under load more than closeEnough come between
// two heartbeats.
func (l *leadership) isWell(node string, term uint64) bool {
	return l.isThere(node, term) && l.shard.group.Peer(node, term).Lacked <= closeEnough
}

// isThere reports whether a voter answers and is fit to lead as far as this node knows.
func (l *leadership) isThere(node string, term uint64) bool {
	s := l.shard
	if !s.cfg.Node.MayLead(s.cfg.ID, node) {
		return false
	}
	contact := s.group.Peer(node, term).Contact
	return !contact.IsZero() && time.Since(contact) <= s.cfg.Timing.Lease
}

// bestPeer returns the voter that should lead in place of this node: the preferred one, or else the one that lacks the
// fewest entries. It returns "" if no other voter is well.
func (l *leadership) bestPeer(term uint64) string {
	s, best := l.shard, ""
	home, _ := s.home.watch()
	for _, node := range s.Voters() {
		switch {
		case node == s.cfg.NodeID || !l.isWell(node, term):
		case node == home:
			return node
		case best == "" || s.group.Peer(node, term).Lag < s.group.Peer(best, term).Lag:
			best = node
		}
	}
	return best
}

// home is the node that should lead a shard while it is healthy. Its methods are safe for concurrent use.
type home struct {
	mu      sync.Mutex
	node    string        // empty: any
	changed chan struct{} // closed when node changes
}

func newHome(node string) *home { return &home{node: node, changed: make(chan struct{})} }

// watch returns the node, and a channel that is closed when there is another one.
func (h *home) watch() (string, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.node, h.changed
}

func (h *home) set(node string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if node == h.node {
		return
	}
	h.node = node
	close(h.changed)
	h.changed = make(chan struct{})
}

// Prefer sets the node that should lead the shard while it is healthy. A leader on another node gives its leadership to
// that node once the node has been well for a while.
func (s *Shard) Prefer(node string) { s.home.set(node) }
