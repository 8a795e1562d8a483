package httpapi

import (
	"errors"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// asSchedule makes the draft a schedule.
func (p *parser) asSchedule(d *draft, generated bool) error {
	plan := &d.order.schedule
	if err := p.complete(plan, d.seen); err != nil {
		return err
	}
	plan.msg.GeneratedId = generated
	d.order.cmd.Op = &plan.op
	return nil
}

// asTouch makes the draft a touch. Its receipt is rounded up, since the new delay counts from it.
func (p *parser) asTouch(d *draft) error {
	if err := p.now.check(); err != nil {
		return err
	}
	d.touch.ReceivedAtMs = contract.CeilUnixMs(p.now.at)
	d.touch.DelayMs = d.order.schedule.msg.DelayMs
	if d.order.instead != nil {
		d.touch.OrSchedule = &d.order.instead.msg
	}
	d.order.cmd.Op = &fsmpb.Command_Touch{Touch: &d.touch}
	return nil
}

func (p *parser) asCancel(d *draft) {
	d.order.cmd.Op = &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}
}

func (p *parser) asFire(d *draft) {
	d.order.cmd.Op = &fsmpb.Command_FireNow{FireNow: &fsmpb.FireNow{}}
}

// noLaterThan reads an instant, or a duration counted from the task's creation.
func (p *parser) noLaterThan(r *contract.Reader, t *fsmpb.Touch) error {
	const name = "no_later_than"
	text, err := r.Text(name)
	if err != nil {
		return err
	}
	if len(text) > 4 && text[4] == '-' {
		at, err := instantField(name, text, p.now.at)
		t.NoLaterThanMs = &at
		return err
	}
	age, err := p.age(name, text)
	t.NoLaterThanAgeMs = &age
	return err
}

func (p *parser) age(name, text string) (int64, error) {
	if _, err := contract.ParseDuration(text); err != nil {
		const detail = "must be an instant (RFC 3339), or a duration from the task's creation"
		return 0, &task.FieldError{Field: name, Detail: detail}
	}
	var d time.Duration
	d, err := spanField(name, text)
	return contract.CeilMs(d), err
}

// orSchedule reads a task as a PUT takes it. What is wrong in it is named with the field it stands in.
func (p *parser) orSchedule(r *contract.Reader) (*plan, error) {
	inner := newDraft()
	if r.Peek() != '{' {
		return nil, r.WrongType("or_schedule", "an object")
	}
	err := r.Object("or_schedule", &contract.PostObject, &inner.seen, func(f contract.Field) error {
		return p.member(r, inner, f)
	})
	if err == nil {
		err = p.complete(&inner.order.schedule, inner.seen)
	}
	if err != nil {
		return nil, within("or_schedule.", err)
	}
	return &inner.order.schedule, nil
}

// within puts a prefix before the field that an error names.
func within(prefix string, err error) error {
	var field *task.FieldError
	var shape *contract.FieldError
	var refusal *problem
	switch {
	case errors.As(err, &shape):
		return &contract.FieldError{Field: prefix + shape.Field, Detail: shape.Detail, Limit: shape.Limit}
	case errors.As(err, &field):
		return &task.FieldError{Field: prefix + field.Field, Detail: field.Detail, Limit: field.Limit}
	case errors.As(err, &refusal) && refusal.field != "":
		named := *refusal
		named.field = prefix + named.field
		return &named
	}
	return err
}
