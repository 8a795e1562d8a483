package client

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

// Touch describes how a task's delay restarts.
type Touch struct {
	Delay time.Duration // 0: the task's last delay
	// At most one of the next two fields bounds how far touching can push a task.
	NoLaterThan time.Time     // an instant
	NoOlderThan time.Duration // counted from the task's creation
	OrSchedule  *Task         // the task to schedule if there is none, or it is done or firing
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
	if t.OrSchedule == nil {
		return b, nil
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
