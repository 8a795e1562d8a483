package reload

import "time"

// NearEnd is the time before the end of a certificate from which on operators are warned.
const NearEnd = 30 * 24 * time.Hour

// The intervals of reminders, before and after the end.
const (
	remindBefore = 24 * time.Hour
	remindAfter  = time.Hour
)

// Reminder decides when an operator is reminded of a certificate that ends: each day from NearEnd on, and each hour
// while it is not valid. The zero Reminder has reminded of nothing. It is not safe for concurrent use.
type Reminder struct {
	last time.Time
}

// Due reports whether a reminder of a certificate with this validity is due, and takes it for given. valid reports
// whether the certificate is valid now.
func (r *Reminder) Due(now, begins, ends time.Time) (due, valid bool) {
	valid = !now.Before(begins) && !now.After(ends)
	since := now.Sub(r.last)
	if valid && (ends.Sub(now) > NearEnd || since < remindBefore) || since < remindAfter {
		return false, valid
	}
	r.last = now
	return true, valid
}

// Renewed makes the next reminder due at once: the certificate is a new one.
func (r *Reminder) Renewed() { r.last = time.Time{} }
