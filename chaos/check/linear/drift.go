package linear

import (
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// horizon is the longest time before its due time that a task may already be granted, by the contract.
const horizon = 50 * time.Millisecond

// drift yields the states that a task may have reached by itself from s, without s. It yields few states for each
// phase, by the fewest changes that lead there, with bounds that hold for any number of changes. Phase ready has two
// states, because later steps depend on whether an attempt began.
func (p *partition) drift(s state, yield func(state)) {
	switch s.phase {
	case absent:
		return
	case scheduled:
		if s.fireAt != 0 {
			s.after = max(s.after, p.seenDue(s.fireAt))
		}
		yield(s.past().waits(ready))
		s.expire(yield)
		p.driftDue(s, yield)
	case ready:
		s.expire(yield)
		p.driftDue(s, yield)
	case retrying:
		s.expire(yield)
		s.tried = true
		p.readyAfter(s, s.attempts, yield)
		p.driftDue(s, yield)
	case firing:
		p.driftFiring(s, yield)
	case cancelled, dead:
		if s.phase == dead || s.outcome == wasStopped {
			p.succeed(s, yield)
		}
	}
	if p.long { // a tombstone may have been removed
		yield(state{rev: s.rev + 1, after: s.after, used: s.used})
	}
}

// seenDue returns the earliest instant at which a call may find a task due whose due time is at.
func (p *partition) seenDue(at history.Instant) history.Instant {
	return p.clocks.earliest(at.Add(-horizon))
}

// expire yields the dead letter of a task that expired before its first attempt.
func (s state) expire(yield func(state)) {
	if s.expires {
		yield(s.past().ends(dead))
	}
}

// driftDue yields the states of a task whose next attempt is granted.
func (p *partition) driftDue(s state, yield func(state)) {
	granted := s.past().waits(firing).began(s.attempts + 1)
	yield(granted)
	p.giveBack(granted, yield)
	yield(granted.past().ends(dead))
	if !p.pulled {
		yield(granted.past().waits(retrying).began(s.attempts))
	}
	if s.attempts > 0 {
		p.succeed(s.began(s.attempts), yield)
	} else {
		p.succeed(granted, yield)
	}
}

// giveBack yields the ready task after a grant ended without a verdict, or after a probe failed. A lease that ended
// counts. An attempt that never began and a failed probe do not.
func (p *partition) giveBack(s state, yield func(state)) {
	p.readyAfter(s, s.fewest(), yield)
}

// readyAfter yields the ready task after at least n attempts that count. Only pushed attempts may begin and not count.
func (p *partition) readyAfter(s state, n int, yield func(state)) {
	next := s.past().waits(ready)
	if n == 0 && !s.tried {
		unbegun := next
		unbegun.attempts, unbegun.counted = 0, true
		yield(unbegun)
	}
	if p.pulled {
		n = max(n, 1)
	}
	next.tried = true
	yield(next.began(n))
}

// fewest returns the fewest attempts that may count when the running attempt has ended without success.
func (s state) fewest() int {
	if s.arrived && !s.probe {
		return s.attempts
	}
	return s.attempts - 1
}

// driftFiring yields the states after a running attempt. A consumer's attempt ends by itself only with its lease.
func (p *partition) driftFiring(s state, yield func(state)) {
	if s.holder == consumer && s.leaseEnds != 0 {
		s.after = max(s.after, p.clocks.earliest(s.leaseEnds))
	}
	if s.outcome == wasStopped {
		p.driftStopped(s, yield)
		return
	}
	p.giveBack(s, yield)
	yield(s.past().ends(dead).began(s.attempts))
	if s.expires {
		yield(s.past().ends(dead).began(s.fewest()))
	}
	if s.holder == consumer && s.arrived {
		yield(s.past().waits(firing).began(s.attempts + 1))
		return
	}
	yield(s.past().waits(firing).began(s.attempts))
	if !p.pulled {
		yield(s.past().waits(retrying).began(s.fewest()))
	}
	p.succeed(s.leastBegun(), yield)
}

// driftStopped yields the states after the last attempt of a task that was cancelled meanwhile. The grant may be
// renewed, but no attempt begins under it.
func (p *partition) driftStopped(s state, yield func(state)) {
	end := s.past().ends(cancelled)
	if !s.arrived {
		end = end.began(max(s.attempts-1, 0))
	}
	yield(end)
	if s.holder == consumer {
		return
	}
	renewed := s.past()
	renewed.fence = 0
	yield(renewed)
	if !s.arrived {
		s = s.leastBegun()
	}
	p.succeed(s, yield)
}

// leastBegun returns the running task with only the attempts that certainly count if one of them succeeds.
func (s state) leastBegun() state { return s.began(max(s.fewest(), 1)) }

// succeed yields the task as delivered, by a running attempt or by one that was given up. A consumer reports success by
// a call, so a lease never succeeds by itself.
func (p *partition) succeed(s state, yield func(state)) {
	if !p.pulled && s.holder != consumer {
		yield(s.past().ends(delivered))
	}
}

// keepDone is the default time that a tombstone stays.
const keepDone = 10 * time.Minute
