package httpapi

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
)

var errInstant = errors.New(
	`must be an instant of RFC 3339, like "2026-11-21T10:00:00Z" or "2026-11-21T11:00:00.5+01:00"`)

const instantLayout = "2006-01-02T15:04:05.000Z07:00"

// parseInstant reads RFC 3339 with any offset and tells Unix milliseconds, finer instants rounded up.
func parseInstant(text string) (int64, error) {
	text = strings.ToUpper(text)
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || !wellFormed(text) {
		return 0, errInstant
	}
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 || finerThanNanoseconds(text) {
		ms++
	}
	return ms, nil
}

// wellFormed refuses what time.Parse lets pass although RFC 3339 does not: hours of one digit, commas for points, and
// offsets of a day or more.
func wellFormed(text string) bool {
	const form, zone = "0000-00-00T00:00:00", "+00:00"
	if len(text) <= len(form) || !looksLike(text[:len(form)], form) {
		return false
	}
	rest := text[len(form):]
	if rest[0] == '.' {
		_, rest = cutDigits(rest[1:])
	}
	if rest == "Z" {
		return true
	}
	if strings.HasPrefix(rest, "-") {
		rest = "+" + rest[1:]
	}
	return looksLike(rest, zone) && rest[1:3] < "24" && rest[4:] < "60"
}

// looksLike compares text with a form in which 0 stands for any digit.
func looksLike(text, form string) bool {
	if len(text) != len(form) {
		return false
	}
	for i := range len(form) {
		digit := '0' <= text[i] && text[i] <= '9'
		if form[i] == '0' != digit || !digit && text[i] != form[i] {
			return false
		}
	}
	return true
}

// finerThanNanoseconds tells whether the fraction says something beyond the nine digits that time.Time keeps.
func finerThanNanoseconds(text string) bool {
	_, fraction, _ := strings.Cut(text, ".")
	digits, _ := cutDigits(fraction)
	return len(digits) > 9 && strings.Trim(digits[9:], "0") != ""
}

func ceilUnixMs(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return ms
}

func appendInstant(b []byte, ms int64) []byte {
	b = append(b, '"')
	b = time.UnixMilli(ms).UTC().AppendFormat(b, instantLayout)
	return append(b, '"')
}

const spanLimit = "0s to 100 years (36500d)"

// instantField reads an instant that may lie anywhere from 1970 to 100 years from now.
func instantField(field, text string, now time.Time) (int64, error) {
	ms, err := parseInstant(text)
	if err != nil {
		return 0, &task.FieldError{Field: field, Detail: err.Error()}
	}
	if ms < 0 {
		return 0, &task.FieldError{Field: field, Detail: "is too early", Limit: "1970-01-01T00:00:00Z or later"}
	}
	if latest := now.Add(task.MaxDelay); ms > ceilUnixMs(latest) {
		return 0, &task.FieldError{Field: field, Detail: "is too far ahead", Limit: "100 years from now"}
	}
	return ms, nil
}

// spanField reads a duration from nothing to 100 years.
func spanField(field, text string) (time.Duration, error) {
	d, err := parseDuration(text)
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

// positiveField reads a duration of more than nothing and at most limit, and tells whole milliseconds, rounded up.
func positiveField(field, text string, limit time.Duration, limitText string) (int64, error) {
	d, err := parseDuration(text)
	switch {
	case err != nil:
		return 0, &task.FieldError{Field: field, Detail: err.Error()}
	case d <= 0:
		return 0, &task.FieldError{Field: field, Detail: "is not longer than nothing",
			Limit: fmt.Sprintf("more than 0s, at most %s", limitText)}
	case d > limit:
		return 0, &task.FieldError{Field: field, Detail: "is too long",
			Limit: fmt.Sprintf("more than 0s, at most %s", limitText)}
	}
	return ceilMs(d), nil
}
