package client

import (
	"encoding/json"
	"fmt"
	"strconv"
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
	if r, ok := scanResult(text, id); ok {
		return r, lineError(r.Status, nil), nil
	}
	var w struct {
		Status   int      `json:"status"`
		Revision uint64   `json:"revision"`
		Outcome  Outcome  `json:"outcome"`
		Previous State    `json:"previous"`
		Problem  *problem `json:"problem"`
	}
	if err := json.Unmarshal(text, &w); err != nil {
		return r, nil, &garbledError{fmt.Errorf("the answer for %s: %w", id, err)}
	}
	r = Result{ID: id, Status: w.Status, Revision: w.Revision, Outcome: w.Outcome, Previous: w.Previous}
	return r, lineError(w.Status, w.Problem), nil
}

func lineError(status int, p *problem) error {
	switch {
	case p != nil:
		return p.asError(status)
	case status < 200 || status > 299:
		return &Error{Status: status}
	}
	return nil
}

// scanResult reads a line as it usually is: {"id":"a","status":201,"revision":7}, perhaps with members of other names
// that are numbers or plain strings. It is not ok for any other line.
func scanResult(text []byte, id string) (r Result, ok bool) {
	const head = `{"id":"`
	n := len(head) + len(id)
	if len(text) <= n || string(text[:len(head)]) != head || string(text[len(head):n]) != id || text[n] != '"' {
		return r, false
	}
	r.ID = id
	text = text[n+1:]
	for len(text) > 0 && text[0] == ',' {
		var m member
		if m, text, ok = cutMember(text[1:]); !ok || !r.set(m) {
			return r, false
		}
	}
	return r, len(text) > 0 && text[0] == '}' && skipSpace(text, 1) == len(text)
}

// member is a name and what stands in its string, or its digits.
type member struct {
	name, value []byte
	quoted      bool
}

// cutMember cuts a member off the front, if it is a plain one.
func cutMember(text []byte) (m member, rest []byte, ok bool) {
	if m.name, text, ok = cutPlain(text); !ok || len(text) < 2 || text[0] != ':' {
		return m, text, false
	}
	if text = text[1:]; text[0] == '"' {
		m.quoted = true
		m.value, text, ok = cutPlain(text)
		return m, text, ok
	}
	end := 0
	for end < len(text) && '0' <= text[end] && text[end] <= '9' {
		end++
	}
	m.value = text[:end]
	return m, text[end:], end == 1 || end > 1 && text[0] != '0'
}

// cutPlain cuts a string off the front that has only letters, digits and underscores.
func cutPlain(text []byte) (plain, rest []byte, ok bool) {
	if len(text) == 0 || text[0] != '"' {
		return nil, text, false
	}
	end := 1
	for end < len(text) && isPlain(text[end]) {
		end++
	}
	if end == len(text) || text[end] != '"' {
		return nil, text, false
	}
	return text[1:end], text[end+1:], true
}

func isPlain(c byte) bool { return 'a' <= c && c <= 'z' || c == '_' || '0' <= c && c <= '9' }

// set takes a member; false if its value is not one of those that are known.
func (r *Result) set(m member) bool {
	var err error
	switch string(m.name) {
	case "status":
		r.Status, err = strconv.Atoi(string(m.value))
		return err == nil && !m.quoted
	case "revision":
		r.Revision, err = strconv.ParseUint(string(m.value), 10, 64)
		return err == nil && !m.quoted
	case "outcome":
		r.Outcome = outcomeOf(m.value)
		return r.Outcome != "" && m.quoted
	case "previous":
		r.Previous = stateOf(m.value)
		return r.Previous != "" && m.quoted
	case "problem":
		return false
	}
	return true
}

func outcomeOf(text []byte) Outcome {
	switch string(text) {
	case string(OutcomeCancelled):
		return OutcomeCancelled
	case string(OutcomeStopped):
		return OutcomeStopped
	case string(OutcomeAlreadyFired):
		return OutcomeAlreadyFired
	}
	return ""
}

func stateOf(text []byte) State {
	for _, s := range [...]State{Scheduled, Ready, Firing, Retrying, Delivered, Dead, Cancelled} {
		if string(text) == string(s) {
			return s
		}
	}
	return ""
}
