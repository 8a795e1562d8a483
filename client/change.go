package client

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

// Touch describes how a task's delay restarts, and how its payload changes in the same step.
type Touch struct {
	Delay time.Duration // 0: the task's last delay
	// At most one of the next two fields bounds how far touching can push a task.
	NoLaterThan time.Time     // an instant
	NoOlderThan time.Duration // counted from the task's creation
	// At most one of the next two fields is set.
	Payload json.RawMessage   // replaces the payload
	Append  []json.RawMessage // values to add to the end of the JSON array that is the payload; none is an empty array
	// OrSchedule is the task to schedule if there is none, or it is done or firing. Without a payload, or with an empty
	// array, it gets Payload or the values of Append.
	OrSchedule *Task
}

// breaksLine reports whether a touch has a line break, so that it cannot stand in a line.
func (t *Touch) breaksLine() bool {
	return breaksLine(t.Payload) || t.OrSchedule != nil && breaksLine(t.OrSchedule.Payload) ||
		slices.ContainsFunc(t.Append, func(v json.RawMessage) bool { return breaksLine(v) })
}

// oneLine returns the touch with payloads that have no line breaks.
func (t Touch) oneLine() Touch {
	t.Payload, t.Append = oneLine(t.Payload), slices.Clone(t.Append)
	for i, v := range t.Append {
		t.Append[i] = oneLine(v)
	}
	if t.OrSchedule != nil {
		made := *t.OrSchedule
		made.Payload = oneLine(made.Payload)
		t.OrSchedule = &made
	}
	return t
}

// appendArray appends a member whose value is an array of JSON values, unless it is empty.
func appendArray(b []byte, f contract.Field, values []json.RawMessage) ([]byte, error) {
	if len(values) == 0 {
		return b, nil
	}
	b = append(contract.AppendName(b, f), '[')
	for i, v := range values {
		if err := contract.Valid(v); err != nil {
			return b, fmt.Errorf("%s[%d] is not JSON (%w)", f, i, err)
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, v...)
	}
	return append(b, ']'), nil
}

// appendTouch appends the members of a touch.
func appendTouch(b []byte, t *Touch) ([]byte, error) {
	b = contract.AppendSpan(b, contract.Delay, t.Delay)
	var err error
	switch {
	case !t.NoLaterThan.IsZero():
		if b, err = appendInstant(b, contract.NoLaterThan, t.NoLaterThan); err != nil {
			return b, err
		}
	case t.NoOlderThan != 0:
		b = appendDuration(b, contract.NoLaterThan, t.NoOlderThan)
	}
	if b, err = appendPayload(b, t.Payload); err != nil {
		return b, err
	}
	if b, err = appendArray(b, contract.Append, t.Append); err != nil || t.OrSchedule == nil {
		return b, err
	}
	b = contract.AppendName(b, contract.OrSchedule)
	begin := len(b)
	if b, err = appendTask(b, t.OrSchedule); err != nil {
		return b, err
	}
	return contract.Close(b, begin), nil
}

func setText(m map[string]any, name, value string) {
	if value != "" {
		m[name] = value
	}
}

func setDuration(m map[string]any, name string, d time.Duration) {
	if d != 0 {
		m[name] = spanText(d)
	}
}

func spanText(d time.Duration) json.RawMessage { return contract.AppendDuration(nil, d) }

// clearFields adds nulls, which restore defaults, for the named fields. It returns an error for a field that is also
// set.
func clearFields(m map[string]any, names []string) error {
	for _, name := range names {
		if err := clearField(m, name); err != nil {
			return err
		}
	}
	return nil
}

func clearField(m map[string]any, name string) error { return clearMember(m, name, name) }

// clearMember adds a null for the field that rest names within m. name is the whole name of the field.
func clearMember(m map[string]any, name, rest string) error {
	outer, inner, nested := strings.Cut(rest, ".")
	if !nested {
		if _, set := m[outer]; set {
			return fmt.Errorf("patch: %s is both set and cleared", name)
		}
		m[outer] = nil
		return nil
	}
	object, ok := m[outer].(map[string]any)
	if !ok {
		if m[outer] != nil {
			return fmt.Errorf("patch: %s cannot be cleared while %s is set", name, strings.TrimSuffix(name, "."+inner))
		}
		object = map[string]any{}
		m[outer] = object
	}
	return clearMember(object, name, inner)
}
