package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// closeEnough is how many log entries a voter may be behind when leadership is about to be given to it. The rest
// reaches it while nothing is proposed.
const closeEnough = 64

// Transfer gives the leadership to another voter. Calls wait meanwhile, and go on here if it fails.
func (s *Shard) Transfer(ctx context.Context, to string) error {
	l := s.current()
	if l == nil {
		return s.notLeader()
	}
	return l.transfer(ctx, to, s.cfg.Timing.Patience, true)
}

// politeDrain is how long a transfer that is not urgent holds new attempts back: too short to be noticed.
const politeDrain = 20 * time.Millisecond

// errAttemptsRunning ends a transfer that is not urgent.
var errAttemptsRunning = errors.New("attempts are running that the next leader would repeat")

// transfer hands the leadership over. patience is how long it waits for a moment without running attempts, which would
// be repeated by the next leader. An urgent transfer goes on all the same.
func (l *leadership) transfer(ctx context.Context, to string, patience time.Duration, urgent bool) error {
	if !l.moving.TryLock() {
		return errors.New("another transfer is under way")
	}
	defer l.moving.Unlock()
	if to == l.shard.cfg.NodeID || !slices.Contains(l.shard.Voters(), to) {
		return fmt.Errorf("node %s is no other voter of shard %d", to, l.shard.cfg.ID)
	}
	l.calm(ctx, patience)
	l.firing.pause()
	drain := politeDrain
	if urgent {
		drain = l.shard.cfg.Timing.Drain
	}
	err := errAttemptsRunning
	if l.calm(ctx, drain) || urgent {
		err = l.handOver(ctx, to, urgent)
	}
	if err != nil {
		l.firing.resume()
		return fmt.Errorf("transfer to node %s: %w", to, err)
	}
	return nil
}

// calm waits for a moment without running attempts, but no longer than that, and tells whether there was one.
func (l *leadership) calm(ctx context.Context, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return l.shard.attempts.wait(ctx) == nil
}

// handOver stops proposing before Raft begins: a transfer during which entries must still be replicated can leave Raft
// refusing entries for ever (hashicorp/raft issue 696).
func (l *leadership) handOver(ctx context.Context, to string, urgent bool) error {
	ctx, cancel := context.WithTimeout(ctx, 4*l.shard.cfg.Timing.Election)
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

// politePart is for what part of an election timeout, which is some round trips, a transfer that is not urgent lets
// calls wait for the last entries to reach the other voter.
const politePart = 6

func (l *leadership) levelWith(ctx context.Context, to string, urgent bool) error {
	if !urgent {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.shard.cfg.Timing.Election/politePart)
		defer cancel()
	}
	return l.shard.group.CatchUp(ctx, to)
}

// giveTo hands over while nothing is proposed.
func (l *leadership) giveTo(ctx context.Context, to string) error {
	s := l.shard
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

// goHome gives the leadership to the preferred node once that has been well for a while. After a transfer that failed
// it waits longer each time.
func (l *leadership) goHome(ctx context.Context) {
	s := l.shard
	home, calm := s.cfg.Preferred, s.cfg.Timing.Calm
	if home == "" || home == s.cfg.NodeID {
		return
	}
	var pause time.Duration
	for sleep(ctx, pause) && l.awaitThere(ctx, home, calm+s.homingTurn()) {
		if !s.isWell(home, l.term.Load()) {
			continue
		}
		if err := l.transfer(ctx, home, calm, false); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Info("leadership not given to its preferred node", "to", home, "err", err)
			pause = min(max(2*pause, calm), time.Minute)
		}
	}
}

// awaitThere returns when a node has been there for so long without a break, and false when the leadership has ended. A
// node that has just started has its whole log to apply, and as a leader would answer no call before that.
func (l *leadership) awaitThere(ctx context.Context, node string, long time.Duration) bool {
	s := l.shard
	for since := time.Now(); time.Since(since) < long; {
		if !sleep(ctx, s.cfg.Timing.Calm/homingTurns) {
			return false
		}
		if !s.isThere(node, l.term.Load()) {
			since = time.Now()
		}
	}
	return ctx.Err() == nil
}

// homingTurns is into how many turns of a while the shards of a node that is back are parted: calls wait during a
// transfer, and wait longer if a third of all shards is moved at the same moment.
const homingTurns = 8

func (s *Shard) homingTurn() time.Duration {
	return s.cfg.Timing.Calm / homingTurns * time.Duration(s.cfg.ID%homingTurns)
}

// isWell reports whether a voter could lead: it is fit for it, it answers, and its log was close to this one's when it
// last did. Entries appended since would count against it too, and under load they are more than closeEnough from one
// heartbeat to the next.
func (s *Shard) isWell(node string, term uint64) bool {
	return s.isThere(node, term) && s.group.Peer(node, term).Lacked <= closeEnough
}

// isThere reports whether a voter is fit to lead, as far as is known, and answers.
func (s *Shard) isThere(node string, term uint64) bool {
	if s.cfg.MayLead != nil && !s.cfg.MayLead(node) {
		return false
	}
	contact := s.group.Peer(node, term).Contact
	return !contact.IsZero() && time.Since(contact) <= s.cfg.Timing.Lease
}

// bestPeer returns the voter that should lead if this node may not: the preferred one, or the one with the most log.
// Empty: none is well.
func (s *Shard) bestPeer(term uint64) string {
	best := ""
	for _, node := range s.Voters() {
		switch {
		case node == s.cfg.NodeID || !s.isWell(node, term):
		case node == s.cfg.Preferred:
			return node
		case best == "" || s.group.Peer(node, term).Lag < s.group.Peer(best, term).Lag:
			best = node
		}
	}
	return best
}
