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

// Patch is a change to a waiting task. Zero fields leave the task's fields unchanged; Clear restores defaults.
type Patch struct {
	FireAt      time.Time
	Delay       time.Duration   // counted from receipt
	Payload     json.RawMessage // replaces the whole payload
	ContentType string
	Target      *Target           // zero fields leave the task's; headers are merged, and an empty value removes one
	Retry       *Retry            // zero fields leave the task's
	Labels      map[string]string // merged; an empty value removes a label
	Window      *Window           // replaces the whole window
	Group       string
	Priority    int
	// Clear names fields to reset, with a dot for a field of an object: "target", "target.timeout", "labels".
	Clear []string
}

// fields returns the merge patch of RFC 7396, without the payload.
func (p Patch) fields() (map[string]any, error) {
	m := map[string]any{}
	if !p.FireAt.IsZero() {
		m["fire_at"] = p.FireAt.UTC()
	}
	setDuration(m, "delay", p.Delay)
	setText(m, "content_type", p.ContentType)
	if p.Target != nil {
		m["target"] = p.Target.patch()
	}
	if p.Retry != nil {
		m["retry"] = p.Retry.patch()
	}
	if p.Labels != nil {
		m["labels"] = mergeText(p.Labels)
	}
	if p.Window != nil {
		m["window"] = p.Window
	}
	setText(m, "group", p.Group)
	setNumber(m, "priority", p.Priority)
	return m, clearFields(m, p.Clear)
}

func (t Target) patch() map[string]any {
	m := map[string]any{}
	setText(m, "url", t.URL)
	setDuration(m, "timeout", t.Timeout)
	if t.Headers != nil {
		m["headers"] = mergeText(t.Headers)
	}
	return m
}

func (r Retry) patch() map[string]any {
	m := map[string]any{}
	setNumber(m, "max_attempts", r.MaxAttempts)
	setDuration(m, "min_backoff", r.MinBackoff)
	setDuration(m, "max_backoff", r.MaxBackoff)
	if r.Delays != nil {
		delays := []any{}
		for _, d := range r.Delays {
			delays = append(delays, spanText(d))
		}
		m["delays"] = delays
	}
	return m
}

func setNumber[N int | float64](m map[string]any, name string, n N) {
	if n != 0 {
		m[name] = n
	}
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

// mergeText turns empty values into nulls, which remove the members.
func mergeText(values map[string]string) map[string]*string {
	m := make(map[string]*string, len(values))
	for name, value := range values {
		if value == "" {
			m[name] = nil
			continue
		}
		m[name] = &value
	}
	return m
}

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
