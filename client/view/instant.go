package view

import (
	"strings"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

// Instant is an instant of an answer. Its JSON has milliseconds, as in "2026-11-21T10:00:00.000Z". A finer instant is
// rounded up.
type Instant struct{ time.Time }

// MarshalJSON writes the instant as RFC 3339.
func (i Instant) MarshalJSON() ([]byte, error) {
	return contract.AppendInstant(nil, contract.CeilUnixMs(i.Time)), nil
}

// InstantOf returns an instant that is given in Unix milliseconds.
func InstantOf(ms int64) Instant { return Instant{time.UnixMilli(ms).UTC()} }

// OptionalInstant is InstantOf, and returns nil for 0.
func OptionalInstant(ms int64) *Instant {
	if ms == 0 {
		return nil
	}
	at := InstantOf(ms)
	return &at
}

// Span returns the text of a duration that is given in milliseconds, as in "1h30m", and "" for 0.
func Span(ms int64) string {
	if ms == 0 {
		return ""
	}
	return strings.Trim(string(contract.AppendDuration(nil, time.Duration(ms)*time.Millisecond)), `"`)
}
