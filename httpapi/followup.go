package httpapi

import (
	"fmt"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// followUpMember reads on_delivered or on_dead. A merge patch replaces it whole.
func (s *specReader) followUpMember(member contract.Field) (err error) {
	place := &s.spec.OnDelivered
	if member == contract.OnDead {
		place = &s.spec.OnDead
	}
	if !s.replaced(member.String()) {
		*place, err = s.followUp(member)
	}
	return err
}

// followUp reads a follow-up. Its errors name the field behind the follow-up's member.
func (s *specReader) followUp(member contract.Field) (*fsmpb.FollowUp, error) {
	if s.place == task.MaxFollowUps {
		return nil, &task.FieldError{Field: member.String(), Detail: "is a follow-up behind the third",
			Limit: fmt.Sprint(task.MaxFollowUps)}
	}
	if s.r.Peek() != '{' {
		return nil, s.r.WrongType(member.String(), "an object")
	}
	f, seen := &fsmpb.FollowUp{Spec: new(fsmpb.Spec)}, contract.Set(0)
	inner := specReader{parser: s.parser, r: s.r, spec: f.Spec, place: s.place + 1}
	err := s.r.Object(member.String(), &contract.FollowUpObject, &seen, func(m contract.Field) (err error) {
		switch m {
		case contract.Delay:
			f.DelayMs, err = wholeSpan(s.r, "delay")
		case contract.KeepAnswer:
			f.KeepAnswer, err = s.r.Bool("keep_answer")
		default:
			err = inner.member(m)
		}
		return err
	})
	if err == nil {
		err = onePayload(seen)
	}
	if err == nil {
		err = s.checkSpec(f.Spec)
	}
	return f, within(member.String()+".", err)
}

// appendFollowUp appends a follow-up, unless there is none.
func appendFollowUp(b []byte, member contract.Field, f *fsmpb.FollowUp) []byte {
	if f == nil {
		return b
	}
	b = contract.AppendName(b, member)
	begin, spec := len(b), f.GetSpec()
	b = appendSpan(b, contract.Delay, f.DelayMs)
	b = contract.AppendTextIf(b, contract.Queue, spec.GetQueue())
	if task.HasPayload(spec) {
		b = appendPayload(b, spec.Payload, spec.PayloadIsBytes)
		b = contract.AppendText(b, contract.ContentType, task.ContentType(spec))
	}
	b = appendSettings(b, spec)
	if f.KeepAnswer {
		b = contract.AppendBool(b, contract.KeepAnswer, true)
	}
	return contract.Close(b, begin)
}
