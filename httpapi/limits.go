package httpapi

import (
	"fmt"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

const spanLimit = "0s to 100 years (36500d)"

// instantField reads an instant that may lie anywhere from 1970 to 100 years from now.
func instantField(field, text string, now time.Time) (int64, error) {
	ms, err := contract.ParseInstant(text)
	if err != nil {
		return 0, &task.FieldError{Field: field, Detail: err.Error()}
	}
	if ms < 0 {
		return 0, &task.FieldError{Field: field, Detail: "is too early", Limit: "1970-01-01T00:00:00Z or later"}
	}
	if latest := now.Add(task.MaxDelay); ms > contract.CeilUnixMs(latest) {
		return 0, &task.FieldError{Field: field, Detail: "is too far ahead", Limit: "100 years from now"}
	}
	return ms, nil
}

// spanField reads a duration from nothing to 100 years.
func spanField(field, text string) (time.Duration, error) {
	d, err := contract.ParseDuration(text)
	switch {
	case err != nil:
		return 0, &task.FieldError{Field: field, Detail: err.Error()}
	case d < 0:
		return 0, &task.FieldError{Field: field, Detail: "is negative", Limit: spanLimit}
	case d > task.MaxDelay:
		return 0, &task.FieldError{Field: field, Detail: "is too long", Limit: spanLimit}
	}
	return d, nil
}

// positive reads a duration of more than nothing and at most limit, and returns whole milliseconds, rounded up.
func positive(r *contract.Reader, field string, limit time.Duration, limitText string) (int64, error) {
	d, err := r.Duration(field)
	switch {
	case err != nil:
		return 0, err
	case d <= 0:
		return 0, &task.FieldError{Field: field, Detail: "is not longer than nothing",
			Limit: fmt.Sprintf("more than 0s, at most %s", limitText)}
	case d > limit:
		return 0, &task.FieldError{Field: field, Detail: "is too long",
			Limit: fmt.Sprintf("more than 0s, at most %s", limitText)}
	}
	return contract.CeilMs(d), nil
}

// span reads a duration within bounds.
func span(r *contract.Reader, name string, least, most time.Duration, limit string) (time.Duration, error) {
	text, err := r.Text(name)
	if err != nil {
		return 0, err
	}
	return boundedSpan(name, text, least, most, limit)
}

func boundedSpan(name, text string, least, most time.Duration, limit string) (time.Duration, error) {
	d, err := contract.ParseDuration(text)
	switch {
	case err != nil:
		return 0, &task.FieldError{Field: name, Detail: err.Error()}
	case d < least:
		return 0, &task.FieldError{Field: name, Detail: "is too short", Limit: limit}
	case d > most:
		return 0, &task.FieldError{Field: name, Detail: "is too long", Limit: limit}
	}
	return time.Duration(contract.CeilMs(d)) * time.Millisecond, nil
}
