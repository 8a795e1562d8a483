package task

import "github.com/belfryhq/belfry/fsm/fsmpb"

// Terms are the terms of a task's attempts, in milliseconds. A zero field is not set.
type Terms struct {
	TimeoutMs                  int64 // of a whole attempt
	MaxAttempts                uint32
	MinBackoffMs, MaxBackoffMs int64
	DelaysMs                   []int64 // the waits after each failed attempt, in place of a backoff
}

// TermsOf returns the terms that a target and a retry policy state, either of which may be nil.
func TermsOf(target *fsmpb.Target, retry *fsmpb.Retry) Terms {
	return Terms{
		TimeoutMs:    target.GetTimeoutMs(),
		MaxAttempts:  AttemptsOf(retry),
		MinBackoffMs: retry.GetMinBackoffMs(), MaxBackoffMs: retry.GetMaxBackoffMs(),
		DelaysMs: retry.GetDelaysMs(),
	}
}

// Or returns t with the fields that are not set taken from next. A task's terms are own.Or(queue).Or(defaults): its
// own, or its queue's, or the defaults.
func (t Terms) Or(next Terms) Terms {
	both := t
	if t.TimeoutMs == 0 {
		both.TimeoutMs = next.TimeoutMs
	}
	if t.MaxAttempts == 0 {
		both.MaxAttempts = next.MaxAttempts
	}
	if len(t.DelaysMs) == 0 && t.MinBackoffMs == 0 && t.MaxBackoffMs == 0 { // a nearer backoff beats farther delays
		both.DelaysMs = next.DelaysMs
	}
	if t.MaxBackoffMs == 0 {
		both.MaxBackoffMs = next.MaxBackoffMs
	}
	if t.MinBackoffMs == 0 {
		both.MinBackoffMs = next.MinBackoffMs
		if most := both.MaxBackoffMs; most > 0 { // a nearer maximum beats a farther minimum
			both.MinBackoffMs = min(both.MinBackoffMs, most)
		}
	}
	return both
}
