package contract

import (
	"errors"
	"strings"
	"time"
)

// ErrInstant is the error for a text that is no instant.
var ErrInstant = errors.New(
	`must be an instant of RFC 3339, like "2026-11-21T10:00:00Z" or "2026-11-21T11:00:00.5+01:00"`)

// ParseInstant reads an instant of RFC 3339 with any offset and returns Unix milliseconds, rounded up. The error is
// ErrInstant.
func ParseInstant(text string) (int64, error) {
	usual := isUsual(text)
	if !usual {
		text = strings.ToUpper(text)
	}
	text, leap := withoutLeap(text)
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || !usual && !wellFormed(text) || leap && !endsMonth(t) {
		return 0, ErrInstant
	}
	if leap {
		t = t.Add(time.Second)
	}
	if usual {
		return t.UnixMilli(), nil
	}
	ms := CeilUnixMs(t)
	if t.Nanosecond()%int(time.Millisecond) == 0 && finerThanNanoseconds(text) {
		ms++
	}
	return ms, nil
}

// withoutLeap returns text with the second 59 in the place of 60.
func withoutLeap(text string) (_ string, leap bool) {
	const before = len("2006-01-02T15:04:")
	if len(text) < before+2 || text[before:before+2] != "60" {
		return text, false
	}
	return text[:before] + "59" + text[before+2:], true
}

// endsMonth reports whether a leap second may follow the second of t: the last one of a month in UTC (RFC 3339). Unix
// time counts a leap second as the second after it.
func endsMonth(t time.Time) bool {
	u := t.UTC()
	return u.Hour() == 23 && u.Minute() == 59 && u.Second() == 59 && u.AddDate(0, 0, 1).Day() == 1
}

// isUsual reports whether text, which time.Parse accepts, has the form that AppendInstant writes.
func isUsual(text string) bool {
	return len(text) == len("2006-01-02T15:04:05.000Z") && text[10] == 'T' && text[13] == ':' && text[19] == '.' &&
		text[23] == 'Z'
}

// wellFormed reports whether text, which time.Parse accepts, is also valid by RFC 3339: no hours of one digit, no
// commas for points, and no offsets of a day or more.
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

// looksLike reports whether text matches a form in which 0 stands for any digit.
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

// finerThanNanoseconds reports whether the fraction has a digit other than 0 after the nine digits that time.Time
// keeps.
func finerThanNanoseconds(text string) bool {
	_, fraction, _ := strings.Cut(text, ".")
	digits, _ := cutDigits(fraction)
	return len(digits) > 9 && strings.Trim(digits[9:], "0") != ""
}

// CeilUnixMs returns an instant in Unix milliseconds, rounded up.
func CeilUnixMs(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return ms
}

// AppendInstant appends an instant, given in Unix milliseconds, as RFC 3339 in quotes, with milliseconds and Z.
func AppendInstant(b []byte, ms int64) []byte {
	b = append(b, '"')
	b = time.UnixMilli(ms).UTC().AppendFormat(b, time.RFC3339) // much faster than a layout with a fraction
	part := (ms%1000 + 1000) % 1000
	return append(b[:len(b)-1], '.', '0'+byte(part/100), '0'+byte(part/10%10), '0'+byte(part%10), 'Z', '"')
}
