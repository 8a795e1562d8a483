package client

import (
	"fmt"
	"strings"
	"time"
)

// ParseInstant reads an instant as the service does: RFC 3339 with any offset. The service keeps whole milliseconds and
// rounds finer instants up, and so does ParseInstant.
func ParseInstant(text string) (time.Time, error) {
	upper := strings.ToUpper(text)
	at, err := time.Parse(time.RFC3339Nano, upper)
	if err != nil || !wellFormed(upper) {
		return time.Time{}, fmt.Errorf(
			`instant %q must be of RFC 3339, like "2026-11-21T10:00:00Z" or "2026-11-21T11:00:00.5+01:00"`, text)
	}
	ms := at.UnixMilli()
	if at.Nanosecond()%int(time.Millisecond) != 0 || finerThanNanoseconds(upper) {
		ms++
	}
	return time.UnixMilli(ms).UTC(), nil
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
