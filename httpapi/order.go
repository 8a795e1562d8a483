package httpapi

import (
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// order is one command under construction. Its usual parts share one allocation.
type order struct {
	cmd      fsmpb.Command
	schedule plan
	instead  *plan // the or_schedule of a touch

	key       fsmpb.Key
	condition fsmpb.Condition
	asked     string // the idempotency key as the caller wrote it
	keyed     bool
}

// plan is a schedule with its parts.
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

// finish completes the command: it applies the jitter and then hashes the key and the call, which needs all other
// parts.
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

// timed returns the order's schedule: that of or_schedule, if there is one.
func (o *order) timed() *plan {
	if o.instead != nil {
		return o.instead
	}
	return &o.schedule
}

// arrival is the time when a call came in, from which delays count.
type arrival struct {
	at   time.Time
	sure bool // the node is sure of the time
}

// check refuses to count from an uncertain time, since such a task could be due at once.
func (a arrival) check() error {
	if a.sure {
		return nil
	}
	return &problem{kind: notReady, detail: "this node's clock has not been compared with the others' yet: it cannot " +
		"count from now", committed: "no", retryAfter: 1}
}

// arrived returns the arrival of a call that comes in now.
func (s *Server) arrived() arrival {
	now, sure := s.cfg.Now()
	return arrival{now, sure}
}

// spread moves the instant later by a part of the jitter that depends on the task's name only. So tasks of one instant
// are spread over the window, and a repeated call gets the same instant. This happens before the commit, so the log has
// only the result.
func (p *plan) spread(namespace, id string) {
	if p.jitterMs > 0 {
		p.msg.FireAtMs += int64(jitterHash(namespace, id) % uint64(p.jitterMs+1))
	}
}

// jitterHash differs from the hash of the slots, so that tasks of one slot do not share an offset.
func jitterHash(namespace, id string) uint64 {
	if namespace == "" {
		namespace = task.DefaultNamespace
	}
	var d xxhash.Digest
	d.ResetWithSeed(jitterSeed)
	_, _ = d.WriteString(namespace) // never fails
	_, _ = d.Write([]byte{0})
	_, _ = d.WriteString(id)
	return d.Sum64()
}

const jitterSeed = 0x6a69747465720001 // "jitter", 1
