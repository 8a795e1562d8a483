package client

import (
	"fmt"

	"github.com/belfryhq/belfry/internal/contract"
)

// Result answers one operation of a batch.
type Result struct {
	ID       string
	Status   int // the HTTP status that the operation would have had as a call of its own; 0: it was not answered
	Revision uint64
	Outcome  Outcome // of a cancel
	Previous State   // of a schedule: the state of the task that it replaced; empty: there was none
	Err      error   // nil: it was done. It wraps an *Error if the service refused it
}

// readResult reads one line of a batch's answer, which is about the task of this id. The refusal is what became of the
// operation; err says that the line cannot be read.
func readResult(text []byte, id string) (r Result, refusal, err error) {
	var refused *Error
	in := contract.NewReader(text)
	err = in.Known("result", func(f contract.Field) error {
		if f == contract.ID {
			return in.Skip()
		}
		return r.member(in, f, &refused)
	})
	if err == nil {
		err = in.End()
	}
	if err != nil {
		return Result{}, nil, &garbledError{fmt.Errorf("the answer for %s: %w", id, err)}
	}
	r.ID = id
	return r, lineError(r.Status, refused), nil
}

// member reads a member of a result, of a line of a batch or of a settle.
func (r *Result) member(in *contract.Reader, f contract.Field, refused **Error) error {
	switch f {
	case contract.ID:
		return readText(in, f, &r.ID)
	case contract.Status:
		return readNumber(in, f, &r.Status)
	case contract.Revision:
		return readNumber(in, f, &r.Revision)
	case contract.Outcome:
		return readText(in, f, &r.Outcome)
	case contract.Previous:
		return readState(in, f, &r.Previous)
	case contract.Problem:
		*refused = new(Error)
		return (*refused).read(in)
	}
	return in.Skip()
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
