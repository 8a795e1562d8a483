package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

const spanLimit = "0s to 100 years (36500d)"

// instantField reads an instant from 1970 to 100 years from now.
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

// spanField reads a duration from 0 to 100 years.
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

// wholeSpan reads a duration from 0 to 100 years, and returns milliseconds, rounded up.
func wholeSpan(r *contract.Reader, field string) (int64, error) {
	text, err := r.Text(field)
	if err != nil {
		return 0, err
	}
	d, err := spanField(field, text)
	return contract.CeilMs(d), err
}

// positive reads a duration of more than 0 and at most limit, and returns whole milliseconds, rounded up.
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

// span returns the member whose value is a duration within bounds.
func span(place *time.Duration, least, most time.Duration, limit string) contract.Member {
	return contract.Into(place, func(r *contract.Reader, full string) (time.Duration, error) {
		text, err := r.Text(full)
		if err != nil {
			return 0, err
		}
		return boundedSpan(full, text, least, most, limit)
	})
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
	return milliseconds(contract.CeilMs(d)), nil
}

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// choice returns the member whose value is one of the names. place gets the name's number.
func choice[T ~int32](place *T, names []string) contract.Member {
	return contract.Into(place, func(r *contract.Reader, full string) (T, error) {
		text, err := oneOf(r, full, names)
		return T(max(0, slices.Index(names, text))), err
	})
}

// oneOf reads one of the names.
func oneOf(r *contract.Reader, full string, names []string) (string, error) {
	text, err := r.Text(full)
	if err == nil && !slices.Contains(names, text) {
		err = &task.FieldError{Field: full, Detail: fmt.Sprintf("is %q", contract.Clip(text)),
			Limit: strings.Join(names, ", ")}
	}
	return text, err
}

// inPath returns the member name whose value, if it is given, must be that in the path.
func inPath(name, value string) contract.Member {
	return func(r *contract.Reader, _ string, _ bool) error {
		text, err := r.Text(name)
		if err == nil && text != value {
			err = &task.FieldError{Field: name, Detail: "is not the " + name + " in the path"}
		}
		return err
	}
}

// absent returns the refusal of a request without a member that it needs.
func absent(name string) error { return &task.FieldError{Field: name, Detail: "is absent"} }

// appendCount appends a number, unless it is 0.
func appendCount(b []byte, f contract.Field, n uint32) []byte {
	if n == 0 {
		return b
	}
	return contract.AppendUint(b, f, uint64(n))
}

// appendSpan appends a duration in milliseconds, unless it is 0.
func appendSpan(b []byte, f contract.Field, ms int64) []byte {
	return contract.AppendSpan(b, f, time.Duration(ms)*time.Millisecond)
}
