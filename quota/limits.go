package quota

import (
	"fmt"
	"math"
	"time"

	"github.com/belfryhq/belfry/client/view"
)

// Quota is a kind of limit.
type Quota uint8

// The quotas. Their names in the contract are those of the fields of a namespace.
const (
	MaxPending Quota = iota
	MaxBytes
	MaxPayload
	SchedulesPerSecond
	CallsPerSecond
	MaxConsumers
	MaxQueues
)

var quotaNames = [...]string{
	"max_pending", "max_bytes", "max_payload", "schedules_per_second", "calls_per_second", "max_consumers", "max_queues",
}

// String returns the quota's name in the contract.
func (q Quota) String() string {
	if int(q) < len(quotaNames) {
		return quotaNames[q]
	}
	return fmt.Sprintf("quota %d", uint8(q))
}

// Limits holds the quotas of a namespace or of a key. A zero field is no limit. A task does not record the key that
// made it, so a key has no MaxPending, MaxBytes, MaxQueues or Weight.
type Limits view.Quotas

// The bounds of the fields.
const (
	MaxCount      = 1 << 50 // of tasks, bytes, consumers and queues
	MaxPerSecond  = 1e7
	MinPerSecond  = 0.01
	MaxWeight     = 100
	DefaultWeight = 1
)

// LimitError reports a field of Limits that is out of bounds.
type LimitError struct {
	Field  string // its name in the contract
	Detail string
	Limit  string
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s: %s (limit %s)", e.Field, e.Detail, e.Limit)
}

// Check returns a *LimitError if a field is out of bounds.
func (l Limits) Check() error {
	counts := []struct {
		quota Quota
		value int64
	}{
		{MaxPending, l.MaxPending}, {MaxBytes, l.MaxBytes}, {MaxPayload, l.MaxPayload},
		{MaxConsumers, l.MaxConsumers}, {MaxQueues, l.MaxQueues},
	}
	for _, c := range counts {
		if c.value < 0 || c.value > MaxCount {
			return &LimitError{c.quota.String(), fmt.Sprintf("is %d", c.value), fmt.Sprint(uint64(MaxCount))}
		}
	}
	if err := checkRate(SchedulesPerSecond, l.SchedulesPerSecond); err != nil {
		return err
	}
	if err := checkRate(CallsPerSecond, l.CallsPerSecond); err != nil {
		return err
	}
	if l.Weight < 0 || l.Weight > MaxWeight {
		return &LimitError{"weight", fmt.Sprintf("is %d", l.Weight), fmt.Sprintf("1 to %d", MaxWeight)}
	}
	return nil
}

func checkRate(q Quota, perSecond float64) error {
	if perSecond == 0 || perSecond >= MinPerSecond && perSecond <= MaxPerSecond {
		return nil
	}
	return &LimitError{q.String(), fmt.Sprintf("is %v", perSecond),
		fmt.Sprintf("%v to %v", MinPerSecond, int64(MaxPerSecond))}
}

// Exceeded refuses a call that a quota does not allow.
type Exceeded struct {
	Quota   Quota
	Subject Subject
	Limit   float64
	Used    float64 // by all callers of the subject, or by the call alone for MaxPayload
	// RetryAfter is the time after which the call may succeed. Zero means that waiting alone never helps.
	RetryAfter time.Duration
}

func (e *Exceeded) Error() string {
	return fmt.Sprintf("%s: the %s uses %s of %s", e.Quota, e.Subject.kind(), Number(e.Used), Number(e.Limit))
}

// Number formats a count without an exponent, and a rate with its decimals.
func Number(v float64) string {
	if v == math.Trunc(v) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// CheckPayload returns an *Exceeded if a payload of so many bytes is over the limit. A node calls it with the length
// that a request announces, before it reads the body, and again with the length of each payload.
func (l Limits) CheckPayload(s Subject, bytes int64) error {
	if l.MaxPayload == 0 || bytes <= 0 || bytes <= l.MaxPayload {
		return nil
	}
	return &Exceeded{Quota: MaxPayload, Subject: s, Limit: float64(l.MaxPayload), Used: float64(bytes)}
}

// Subject is the namespace or the key that has limits. One of the fields is set.
type Subject struct {
	Namespace string
	Key       string // id
}

func (s Subject) kind() string {
	if s.Key != "" {
		return "key"
	}
	return "namespace"
}
