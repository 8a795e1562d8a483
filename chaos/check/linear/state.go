package linear

import (
	"github.com/belfryhq/belfry/chaos/history"
)

// phase is the state of a task as the contract names it, or absent.
type phase uint8

const (
	absent phase = iota
	scheduled
	ready
	firing
	retrying
	delivered
	dead
	cancelled
	phases
)

func (p phase) String() string {
	return [phases]string{"absent", "scheduled", "ready", "firing", "retrying", "delivered", "dead", "cancelled"}[p]
}

// phaseOf returns the phase with the given name, absent for an empty name. ok is false for a name that the contract
// does not know.
func phaseOf(name string) (p phase, ok bool) {
	if name == "" {
		return absent, true
	}
	for p = scheduled; p < phases; p++ {
		if p.String() == name {
			return p, true
		}
	}
	return absent, false
}

func (p phase) tombstone() bool { return p == delivered || p == dead || p == cancelled }

// outcome is the outcome of a cancel of this occurrence. A task keeps no mark of a cancel that came too late.
type outcome uint8

const (
	none outcome = iota
	wasCancelled
	wasStopped
	tooLate
)

func (o outcome) String() string {
	return [...]string{"", "cancelled", "stopped", "already_fired"}[o]
}

func outcomeOf(name string) (o outcome, ok bool) {
	for o = none; o <= tooLate; o++ {
		if o.String() == name {
			return o, true
		}
	}
	return none, false
}

// holder is the party that makes the running attempt.
type holder uint8

const (
	somebody holder = iota
	service         // the service pushes the attempt
	consumer        // the attempt is a consumer's lease
)

// state is one possible task, with bounds for the fields that are not known. The zero state with exact set is the task
// that was never made. States are comparable: equal states of one partition are the same task.
type state struct {
	phase phase

	// rev is the number of the last change if exact, else a lower bound of it.
	rev   uint64
	exact bool

	// attempts is the number of begun attempts of this occurrence if counted, else a lower bound of it.
	attempts int
	counted  bool
	tried    bool // an attempt of this occurrence certainly began, whether it counts or not

	// fireAt is the due time if known, else a lower bound of it.
	fireAt history.Instant
	known  bool

	expires bool  // the task may become a dead letter without an attempt
	wrote   int64 // operation that wrote the task's payload; 0: no payload
	outcome outcome

	fence     uint64 // fence of the current or last grant; 0: none, or not known
	holder    holder
	arrived   bool            // the current grant arrived, so it is not given back by itself
	probe     bool            // the attempt that arrived may be a failed probe of a broken receiver, which does not count
	leaseEnds history.Instant // end of a consumer's lease; 0: not known
	webhook   int             // number of the webhook-id within the partition; 0: not seen yet

	after history.Instant // earliest instant for the changes that the task made by itself
	used  string          // number of events of each class so far, a byte a class; empty: none
}

// past returns the state one change later, at a number that is not known.
func (s state) past() state {
	s.rev++
	s.exact = false
	return s
}

// at returns the state with one more change, at number r, or at an unknown number if r is 0. ok is false if a change
// took r or a higher number before.
func (s state) at(r uint64) (_ state, ok bool) {
	s = s.past()
	if r == 0 {
		return s, true
	}
	if r < s.rev {
		return s, false
	}
	s.rev, s.exact = r, true
	return s, true
}

// shows returns the state with the last change at number r. ok is false if that change cannot have had number r.
func (s state) shows(r uint64) (_ state, ok bool) {
	if r < s.rev || s.exact && r != s.rev {
		return s, false
	}
	s.rev, s.exact = r, true
	return s, true
}

// counts returns the state with exactly n attempts. ok is false if the state excludes that.
func (s state) counts(n int) (_ state, ok bool) {
	if n < s.attempts || s.counted && n != s.attempts {
		return s, false
	}
	s.attempts, s.counted = n, true
	return s, true
}

// began returns the state with at least n attempts.
func (s state) began(n int) state {
	s.attempts, s.counted = n, false
	return s
}

// begun reports whether an attempt of the occurrence ever began, or the task has no unfinished occurrence.
func (s state) begun() bool {
	return s.phase != scheduled && (s.phase != ready || s.tried)
}

// waits returns the state in the given phase, with no attempt under way.
func (s state) waits(in phase) state {
	s.phase, s.fence, s.holder, s.arrived, s.probe, s.leaseEnds = in, 0, somebody, false, false, 0
	return s
}

// ends returns the state as a tombstone. It keeps the last fence, for an ack that is repeated. Only a dead task keeps
// its payload.
func (s state) ends(as phase) state {
	s.phase, s.leaseEnds = as, 0
	if as != dead {
		s.wrote = 0
	}
	return s
}

// core returns the state without its lower bounds and used events. Of two states with one core, the state with lower
// bounds and fewer used events can become everything that the other state can (see covers).
func (s state) core() state {
	if !s.exact {
		s.rev = 0
	}
	if !s.known {
		s.fireAt = 0
	}
	s.after, s.used = 0, ""
	return s
}

// covers reports whether s can become everything that t can. Both must have the same core.
func (s *state) covers(t *state) bool {
	return s.rev <= t.rev && s.fireAt <= t.fireAt && s.after <= t.after && covers(s.used, t.used)
}

// covers reports whether no class of events was used more often in a than in b.
func covers(a, b string) bool {
	for i := range len(a) {
		if i >= len(b) {
			if a[i] != 0 {
				return false
			}
			continue
		}
		if a[i] > b[i] {
			return false
		}
	}
	return true
}
