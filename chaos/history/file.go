package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// line is one event of a recorded file. Exactly one of its pointers, or Stage, is set.
type line struct {
	At      Instant  `json:"at"`
	N       int      `json:"n,omitempty"` // number of the call or the fault
	Call    *Call    `json:"call,omitempty"`
	End     *Ending  `json:"end,omitempty"`
	Arrival *Arrival `json:"arrival,omitempty"`
	Fault   *Fault   `json:"fault,omitempty"`
	Stage   string   `json:"stage,omitempty"` // of fault N: "mending" or "mended"
	Term    *Term    `json:"term,omitempty"`
	Replica *Replica `json:"replica,omitempty"`
}

// Read reads a recorded file. It returns all events before the last line if the file ends in the middle of that line.
// It returns an error for malformed JSON, and for an event that refers to a call or a fault that never began.
func Read(r io.Reader) (*History, error) {
	h := &History{}
	dec := json.NewDecoder(r)
	for n := 1; ; n++ {
		var l line
		switch err := dec.Decode(&l); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return h, nil
		case err != nil:
			return nil, fmt.Errorf("event %d: %w", n, err)
		}
		if err := h.take(l); err != nil {
			return nil, fmt.Errorf("event %d: %w", n, err)
		}
	}
}

func (h *History) take(l line) error {
	switch {
	case l.Call != nil:
		if l.N != len(h.Calls) {
			return fmt.Errorf("call %d where %d was expected", l.N, len(h.Calls))
		}
		l.Call.Start = l.At
		h.Calls = append(h.Calls, *l.Call)
	case l.End != nil:
		return h.end(l)
	case l.Arrival != nil:
		l.Arrival.At = l.At
		h.Arrivals = append(h.Arrivals, *l.Arrival)
	case l.Fault != nil:
		l.Fault.Struck = l.At
		h.Faults = append(h.Faults, *l.Fault)
	case l.Stage != "":
		return h.mend(l)
	case l.Term != nil:
		l.Term.At = l.At
		h.Terms = append(h.Terms, *l.Term)
	case l.Replica != nil:
		l.Replica.At = l.At
		h.Replicas = append(h.Replicas, *l.Replica)
	default:
		return errors.New("no event")
	}
	return nil
}

func (h *History) end(l line) error {
	if l.N < 0 || l.N >= len(h.Calls) {
		return fmt.Errorf("the end of call %d, which never began", l.N)
	}
	c := &h.Calls[l.N]
	c.End, c.Outcome, c.Answer = l.At, l.End.Outcome, l.End.Answer
	return nil
}

func (h *History) mend(l line) error {
	if l.N < 0 || l.N >= len(h.Faults) {
		return fmt.Errorf("the mending of fault %d, which never struck", l.N)
	}
	switch l.Stage {
	case "mending":
		h.Faults[l.N].Mending = l.At
	case "mended":
		h.Faults[l.N].Mended = l.At
	default:
		return fmt.Errorf("stage %q", l.Stage)
	}
	return nil
}
