package client

import (
	"fmt"

	"github.com/belfryhq/belfry/internal/contract"
)

// Result is the answer to one operation of a batch.
type Result struct {
	ID       string
	Status   int // the operation's HTTP status as a call of its own; 0: unanswered
	Revision uint64
	Outcome  Outcome // of a cancel
	Previous State   // of a schedule: the replaced task's state; empty: there was none
	Err      error   // nil: done; it wraps an *Error if the service refused the operation
}

// readResult reads one line of a batch's answer, for the task with this id. refusal is the service's refusal of the
// operation; err means that the line is unreadable.
func readResult(text []byte, id string) (r Result, refusal, err error) {
	var refused *Error
	in := contract.NewReader(text)
	err = r.read(in, nil, &refused)
	if err == nil {
		err = in.End()
	}
	if err != nil {
		return Result{}, nil, &garbledError{fmt.Errorf("the answer for %s: %w", id, err)}
	}
	r.ID = id
	return r, lineError(r.Status, refused), nil
}

// read reads the result of a batch line or of a settle. id is the place for the id, or nil.
func (r *Result) read(in *contract.Reader, id any, refused **Error) error {
	return readObject(in, "result", []member{
		{contract.ID, id}, {contract.Status, &r.Status}, {contract.Revision, &r.Revision},
		{contract.Outcome, &r.Outcome}, {contract.Previous, &r.Previous}, {contract.Problem, refused},
	})
}

func lineError(status int, refused *Error) error {
	switch {
	case refused != nil:
		refused.Status = status
		return refused
	case status < 200 || status > 299:
		return &Error{Status: status}
	}
	return nil
}

func stateOf(text []byte) State {
	for _, s := range [...]State{Scheduled, Ready, Firing, Retrying, Delivered, Dead, Cancelled} {
		if string(text) == string(s) {
			return s
		}
	}
	return ""
}
