package httpapi

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// order is one command under construction, with what it commonly points to in the same allocation.
type order struct {
	cmd      fsmpb.Command
	schedule plan
	instead  *plan // of a touch: or_schedule

	key       fsmpb.Key
	condition fsmpb.Condition
	asked     string // the idempotency key as the caller wrote it
	keyed     bool
}

// plan is a schedule with what it points to.
type plan struct {
	op      fsmpb.Command_Schedule
	msg     fsmpb.Schedule
	spec    fsmpb.Spec
	delayMs int64

	jitterMs int64
}

// link joins the parts and returns the message.
func (p *plan) link() *fsmpb.Schedule {
	p.op.Schedule = &p.msg
	p.msg.Spec = &p.spec
	return &p.msg
}

// setKey takes the idempotency key, 1 to 255 bytes.
func (o *order) setKey(name, key string) error {
	if err := checkKey(name, key); err != nil {
		return err
	}
	o.asked, o.keyed = key, true
	return nil
}

// finish puts the parts together: instants are spread, key and call are hashed, once everything else is known.
func (o *order) finish() *fsmpb.Command {
	o.timed().spread(o.cmd.Namespace, o.cmd.Id)
	if c := &o.condition; c.Absent || c.Present || len(c.Revisions) > 0 {
		o.cmd.Condition = c
	}
	if o.keyed {
		o.key.Hash = keyHash(o.asked)
		o.key.Call = callHash(&o.cmd, o.timed().jitterMs)
		o.cmd.Key = &o.key
	}
	return &o.cmd
}

// timed is the schedule that the order comes to, if it comes to one.
func (o *order) timed() *plan {
	if o.instead != nil {
		return o.instead
	}
	return &o.schedule
}
