package linear

import (
	"github.com/belfryhq/belfry/chaos/history"
)

// phase is the state of a task as the contract names it, or that there is none.
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

// phaseOf reads a state's name; ok is false for one that the contract does not know. The empty one is absent.
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

// outcome is what a cancel of this occurrence came to. That it came too late leaves no mark.
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

// holder is who makes the running attempt.
type holder uint8

const (
	somebody holder = iota
	service         // it is pushed
	consumer        // it is a lease
)

// state is what a task may be, as far as it is known. The zero state is a task that never was. It is comparable; two
// states of one partition that look the same are the same.
type state struct {
	phase phase

	// rev is the number of the last change if exact, else that number is not lower.
	rev   uint64
	exact bool

	// attempts of this occurrence that were begun if counted, else there were not fewer.
	attempts int
	counted  bool

	// fireAt is when it is due if known, else it is not due before that.
	fireAt history.Instant
	known  bool

	expires bool  // it may become a dead letter without an attempt
	wrote   int64 // the operation whose payload it carries; 0: it carries none
	outcome outcome

	fence     uint64 // of the current or last grant; 0: there was none, or it is not known
	holder    holder
	arrived   bool            // that grant was seen to begin: it is not given back by itself
	leaseEnds history.Instant // of that grant, if a consumer has it; 0: not known
	webhook   int             // number of its webhook-id within the partition; 0: not seen yet

	after history.Instant // what it did by itself was not done before this instant
	used  string          // how many events of each class have happened, a byte a class; empty: none
}

// past is the state one change later, at a number that is not known.
func (s state) past() state {
	s.rev++
	s.exact = false
	return s
}

// at is the state with the change at number r, 0 for one that is not known; ok is false if that is in the past.
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

// shows pins the last change to number r; ok is false if it cannot have been that.
func (s state) shows(r uint64) (_ state, ok bool) {
	if r < s.rev || s.exact && r != s.rev {
		return s, false
	}
	s.rev, s.exact = r, true
	return s, true
}

// counts pins the attempts.
func (s state) counts(n int) (_ state, ok bool) {
	if n < s.attempts || s.counted && n != s.attempts {
		return s, false
	}
	s.attempts, s.counted = n, true
	return s, true
}

// began is the state with at least n attempts.
func (s state) began(n int) state {
	s.attempts, s.counted = n, false
	return s
}

// begun tells whether an attempt of the occurrence was ever begun, or there is no occurrence.
func (s state) begun() bool {
	return s.phase != scheduled && (s.phase != ready || s.attempts > 0)
}

// waits is the state in the phase given, with no attempt under way.
func (s state) waits(in phase) state {
	s.phase, s.fence, s.holder, s.arrived, s.leaseEnds = in, 0, somebody, false, 0
	return s
}

// ends is the state as a tombstone. The last fence stays known to it, for an ack that is repeated. All but a dead one
// lose their payload.
func (s state) ends(as phase) state {
	s.phase, s.leaseEnds = as, 0
	if as != dead {
		s.wrote = 0
	}
	return s
}

// core is a state without what only makes it more or less possible: of two states with one core, that which used
// fewer events and is bound less in number and time can become all that the other one can.
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

// covers tells whether s can become all that t can, of the same core.
func (s *state) covers(t *state) bool {
	return s.rev <= t.rev && s.fireAt <= t.fireAt && s.after <= t.after && covers(s.used, t.used)
}

// covers tells whether no class of events was used more often in a than in b.
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
