package load

import (
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// Operation is one request of a load. All its tries share the operation number in What.
type Operation struct {
	What  history.Call  // the record of each try, without the node
	Task  *Task         // of a schedule, or of a touch that may make a task; else nil
	Body  []byte        // the payload that a schedule, touch or patch writes; nil: none
	Delay time.Duration // of a touch, patch, nack or extend
	Lease Lease         // the lease that is settled
}

// Ceil rounds an instant up to the millisecond, as the service does.
func Ceil(t time.Time) time.Time { return t.Add(time.Millisecond - 1).Truncate(time.Millisecond) }

func (p *Player) operation(kind history.Kind, id string, ask history.Ask) Operation {
	return Operation{What: history.Call{Op: p.cfg.Recorder.NextOp(), Kind: kind, ID: id, Ask: ask}}
}

// write gives an operation the payload of a task, and records its fingerprint.
func (o *Operation) write(t Task) {
	o.Body = Payload{Op: o.What.Op, Fail: t.Fail, Hold: t.Hold.Milliseconds(), Gone: t.Gone}.Encode()
	o.What.Ask.Body = history.Fingerprint(o.Body)
}

// Schedule returns an operation that schedules a task.
func (p *Player) Schedule(id string, t Task) Operation {
	o := p.operation(history.Schedule, id, history.Ask{
		Delay: t.Delay, Group: t.Group, IfAbsent: t.IfAbsent, IfRevision: t.IfRevision, Expires: t.Expires > 0,
	})
	if !t.FireAt.IsZero() {
		o.What.Ask.FireAt = history.At(Ceil(t.FireAt))
	}
	o.Task = &t
	o.write(t)
	return o
}

// Patch returns an operation that moves a task, and replaces its payload if swap is set.
func (p *Player) Patch(id string, delay time.Duration, swap bool) Operation {
	o := p.operation(history.Patch, id, history.Ask{Delay: delay})
	if o.Delay = delay; swap {
		o.write(Task{})
	}
	return o
}

// Touch returns an operation that starts a task's delay again. If or is not nil, it makes that task where there is
// none.
func (p *Player) Touch(id string, delay time.Duration, or *Task) Operation {
	o := p.operation(history.Touch, id, history.Ask{Delay: delay, OrSchedule: or != nil})
	o.Delay, o.Task = delay, or
	if or != nil {
		o.write(*or)
	}
	return o
}

// Cancel returns an operation that cancels a task.
func (p *Player) Cancel(id string) Operation { return p.operation(history.Cancel, id, history.Ask{}) }

// Fire returns an operation that makes a task due now.
func (p *Player) Fire(id string) Operation { return p.operation(history.Fire, id, history.Ask{}) }

// Get returns an operation that reads a task linearizably.
func (p *Player) Get(id string) Operation { return p.operation(history.Get, id, history.Ask{}) }

// GetStale returns an operation that reads a task from any replica.
func (p *Player) GetStale(id string) Operation { return p.operation(history.Stale, id, history.Ask{}) }

// Settle returns an operation that settles a lease. A nack without a delay leaves the retry to the backoff. An extend
// lasts for delay.
func (p *Player) Settle(kind history.Kind, l Lease, delay time.Duration) Operation {
	o := p.operation(kind, l.ID, history.Ask{Fence: l.Fence, Delay: delay})
	o.Lease, o.Delay = l, delay
	return o
}
