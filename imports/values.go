package imports

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/belfryhq/belfry/client"
)

// Unit is the unit of due times that are numbers since 1970.
type Unit string

// The units of due times.
const (
	Auto         Unit = "auto" // seconds below 100,000 million, milliseconds from there on
	Seconds      Unit = "s"
	Milliseconds Unit = "ms"
)

// bigSeconds is the number from which Auto reads milliseconds: the year 5138 in seconds, and 1973 in milliseconds.
const bigSeconds = 1e11

// last is the last instant of the API, in Unix milliseconds: the end of the year 9999.
const last = 253402300799999

// Time returns the instant of a number, rounded up to whole milliseconds. A microsecond is left out first, since binary
// fractions of seconds are often that much too large.
func (u Unit) Time(n float64) (time.Time, error) {
	ms := n
	if u == Seconds || u != Milliseconds && math.Abs(n) < bigSeconds {
		ms = n * 1000
	}
	ms = math.Ceil(ms - 0.001)
	if math.IsNaN(ms) || ms < 0 || ms > last {
		return time.Time{}, fmt.Errorf("%v is no time from 1970 to 9999", n)
	}
	return time.UnixMilli(int64(ms)).UTC(), nil
}

// Parse reads an instant: a number of the unit, or RFC 3339.
func (u Unit) Parse(text string) (time.Time, error) {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return u.Time(n)
	}
	at, err := client.ParseInstant(text)
	if err != nil {
		return at, fmt.Errorf("%q is neither an instant, like 2026-11-21T10:00:00Z, nor Unix time", text)
	}
	return at, nil
}

// SetPayload sets the payload of a task: as JSON if it is, as text if it is that, and as bytes otherwise. Empty: none.
func SetPayload(t *client.Task, payload []byte) {
	switch {
	case len(payload) == 0:
	case json.Valid(payload) && utf8.Valid(payload):
		t.Payload = payload
	case utf8.Valid(payload):
		t.PayloadBytes, t.ContentType = payload, "text/plain; charset=utf-8"
	default:
		t.PayloadBytes, t.ContentType = payload, "application/octet-stream"
	}
}
