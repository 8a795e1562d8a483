package client

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// What a call says is appended by hand: encoding/json costs several times as much, and would rewrite the payload, which
// is to be delivered byte for byte. Fields are appended with a comma in front of each; closeObject makes an object of
// them.

var (
	errNotJSON = errors.New("payload is not JSON; other bytes belong into PayloadBytes")
	errYear    = errors.New("fire_at is not between the years 0 and 9999")
)

// closeObject makes an object of the fields that begin at b[begin:].
func closeObject(b []byte, begin int) []byte {
	if len(b) == begin {
		return append(b, "{}"...)
	}
	b[begin] = '{' // in place of the first one's comma
	return append(b, '}')
}

// appendTask appends what a caller says about a task, the id aside.
func appendTask(b []byte, t *Task) ([]byte, error) {
	b = appendText(b, `,"queue":`, t.Queue)
	if !t.FireAt.IsZero() {
		b = append(b, `,"fire_at":`...)
		var err error
		if b, err = appendInstant(b, t.FireAt); err != nil {
			return b, err
		}
	}
	if t.FireAt.IsZero() || t.Delay != 0 { // both set: the service refuses it, and says why
		b = appendDuration(append(b, `,"delay":`...), t.Delay)
	}
	b = appendSpan(b, `,"jitter":`, t.Jitter)
	if len(t.PayloadBytes) > 0 {
		b = append(b, `,"payload_base64":"`...)
		b = append(base64.StdEncoding.AppendEncode(b, t.PayloadBytes), '"')
	}
	b = appendText(b, `,"content_type":`, t.ContentType)
	if t.Target != nil {
		b = appendTarget(b, t.Target)
	}
	if t.Retry != nil {
		b = appendRetry(b, t.Retry)
	}
	b = appendSpan(b, `,"expires_after":`, t.ExpiresAfter)
	if len(t.Labels) > 0 {
		b = appendMap(append(b, `,"labels":`...), t.Labels)
	}
	return appendPayload(b, t.Payload)
}

func appendPayload(b []byte, payload json.RawMessage) ([]byte, error) {
	if payload == nil {
		return b, nil
	}
	if !isJSON(payload) {
		return b, errNotJSON
	}
	return append(append(b, `,"payload":`...), payload...), nil
}

func appendTarget(b []byte, t *Target) []byte {
	b = appendString(append(b, `,"target":{"url":`...), t.URL)
	if len(t.Headers) > 0 {
		b = appendMap(append(b, `,"headers":`...), t.Headers)
	}
	return append(appendSpan(b, `,"timeout":`, t.Timeout), '}')
}

func appendRetry(b []byte, r *Retry) []byte {
	b = append(b, `,"retry":`...)
	begin := len(b)
	if r.MaxAttempts != 0 {
		b = strconv.AppendInt(append(b, `,"max_attempts":`...), int64(r.MaxAttempts), 10)
	}
	b = appendSpan(b, `,"min_backoff":`, r.MinBackoff)
	b = appendSpan(b, `,"max_backoff":`, r.MaxBackoff)
	for i, d := range r.Delays {
		if i == 0 {
			b = append(b, `,"delays":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendDuration(b, d)
	}
	if len(r.Delays) > 0 {
		b = append(b, ']')
	}
	return closeObject(b, begin)
}

// appendTouch appends what a touch says.
func appendTouch(b []byte, t *Touch) ([]byte, error) {
	b = appendSpan(b, `,"delay":`, t.Delay)
	var err error
	switch {
	case !t.NoLaterThan.IsZero():
		if b, err = appendInstant(append(b, `,"no_later_than":`...), t.NoLaterThan); err != nil {
			return b, err
		}
	case t.NoOlderThan != 0:
		b = appendDuration(append(b, `,"no_later_than":`...), t.NoOlderThan)
	}
	if t.OrSchedule == nil {
		return b, nil
	}
	b = append(b, `,"or_schedule":`...)
	begin := len(b)
	if b, err = appendTask(b, t.OrSchedule); err != nil {
		return b, err
	}
	return closeObject(b, begin), nil
}

// appendText appends a name, with its comma and colon, and a string, unless that is empty.
func appendText(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return appendString(append(b, name...), text)
}

// appendSpan is appendText for a duration.
func appendSpan(b []byte, name string, d time.Duration) []byte {
	if d == 0 {
		return b
	}
	return appendDuration(append(b, name...), d)
}

func appendDuration(b []byte, d time.Duration) []byte {
	b = append(b, '"')
	b = append(b, d.String()...) // the compiler makes no string of it
	return append(b, '"')
}

func appendInstant(b []byte, t time.Time) ([]byte, error) {
	t = t.UTC()
	if year := t.Year(); year < 0 || year > 9999 { // RFC 3339 has four digits for it
		return b, errYear
	}
	b = t.AppendFormat(append(b, '"'), time.RFC3339Nano)
	return append(b, '"'), nil
}

// appendMap appends an object of strings, sorted by name, so that the same call is the same bytes.
func appendMap(b []byte, m map[string]string) []byte {
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(append(appendString(b, name), ':'), m[name])
	}
	return append(b, '}')
}

// appendString appends a JSON string. What is not UTF-8 becomes U+FFFD.
func appendString(b []byte, text string) []byte {
	b = append(b, '"')
	done := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(text[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, text[done:i]...), "\ufffd"...)
				done = i + 1
			}
			i += n
			continue
		}
		if c < 0x20 || c == '"' || c == '\\' {
			const digits = "0123456789abcdef"
			b = append(append(b, text[done:i]...), '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
			done = i + 1
		}
		i++
	}
	return append(append(b, text[done:]...), '"')
}
