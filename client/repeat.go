package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

// Repeat is a rule that repeats, with either Cron or Every.
type Repeat struct {
	Cron     []string      // expressions of five or six fields, or macros like "@daily": the rule fires at each
	Every    time.Duration // an interval in elapsed time, 100 ms at least
	Anchor   time.Time     // an instant of Every; zero: Start, else now
	TimeZone string        // of the IANA database: "Europe/Berlin"; empty: UTC
	Start    time.Time     // the first instant that may be an occurrence; zero: no limit
	End      time.Time     // the last instant that may be an occurrence; zero: no limit
	Count    int64         // most occurrences; 0: no limit
	Except   []string      // dates, ranges of dates ("2026-12-24/2027-01-01"), instants and cron expressions

	// Calendar is a calendar of the namespace: no occurrence is at an instant at which it is closed. Empty: none.
	Calendar string

	// Jitter makes each occurrence of a schedule begin up to so much after its instant, by a part that depends on the
	// schedule's id and the occurrence only. A preview shows the instants without it.
	Jitter time.Duration
}

// repeatJSON is a Repeat as the service takes and answers it.
type repeatJSON struct {
	Anchor   time.Time `json:"anchor,omitzero"`
	Calendar string    `json:"calendar,omitempty"`
	Count    int64     `json:"count,omitempty"`
	Cron     []string  `json:"cron,omitempty"`
	End      time.Time `json:"end,omitzero"`
	Every    span      `json:"every,omitempty"`
	Except   []string  `json:"except,omitempty"`
	Jitter   span      `json:"jitter,omitempty"`
	Start    time.Time `json:"start,omitzero"`
	TimeZone string    `json:"time_zone,omitempty"`
}

// MarshalJSON returns the rule as the service takes it.
func (r Repeat) MarshalJSON() ([]byte, error) {
	return json.Marshal(repeatJSON{
		Anchor: r.Anchor, Calendar: r.Calendar, Count: r.Count, Cron: r.Cron, End: r.End, Every: span(r.Every),
		Except: r.Except, Jitter: span(r.Jitter), Start: r.Start, TimeZone: r.TimeZone,
	})
}

// UnmarshalJSON reads a rule as the service writes it.
func (r *Repeat) UnmarshalJSON(data []byte) error {
	var v repeatJSON
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	*r = Repeat{
		Cron: v.Cron, Every: time.Duration(v.Every), Anchor: v.Anchor, TimeZone: v.TimeZone, Start: v.Start, End: v.End,
		Calendar: v.Calendar, Count: v.Count, Except: v.Except, Jitter: time.Duration(v.Jitter),
	}
	return nil
}

// span is a duration in the JSON of the service.
type span time.Duration

// MarshalJSON writes the duration in the form that ParseDuration reads.
func (s span) MarshalJSON() ([]byte, error) {
	return contract.AppendDuration(nil, time.Duration(s)), nil
}

// UnmarshalJSON reads the duration in the forms of ParseDuration.
func (s *span) UnmarshalJSON(data []byte) error {
	return unlessNull(data, func(r *contract.Reader) error {
		d, err := r.Duration("duration")
		*s = span(d)
		return err
	})
}

// ClockChange is the effect of a clock change on an occurrence.
type ClockChange string

// The effects of clock changes.
const (
	ChangeGap    ClockChange = "gap"    // the clock skips the time that the rule names: the end of the gap takes its place
	ChangeFirst  ClockChange = "first"  // the clock shows the time twice, and this is the first
	ChangeSecond ClockChange = "second" // the clock shows the time twice, and this is the second
)

// Occurrence is an instant at which a rule fires.
type Occurrence struct {
	At     time.Time   `json:"at"`
	Local  time.Time   `json:"local"` // At with the offset of the rule's zone
	Change ClockChange `json:"clock_change,omitempty"`
	Wall   string      `json:"wall,omitempty"` // with ChangeGap: the time that the rule names
}

// Exclusion is an instant that the rule leaves out.
type Exclusion struct {
	At     time.Time `json:"at"`
	Local  time.Time `json:"local"`
	Except string    `json:"except"` // the element of Except, or "calendar" and its name
}

// SchedulePreview lists the next occurrences of a rule.
type SchedulePreview struct {
	Occurrences []Occurrence `json:"occurrences"`
	Excluded    []Exclusion  `json:"excluded"`
	Ended       bool         `json:"ended"` // the rule has no occurrence after these
	TimeZone    string       `json:"time_zone"`
	TZData      string       `json:"tz_data"` // release of the time zone database in the node
}

// PreviewSchedule returns the next n occurrences of a rule after now; 0: the service's default. The service keeps
// nothing.
func (c *Client) PreviewSchedule(ctx context.Context, rule Repeat, n int) (*SchedulePreview, error) {
	members := map[string]any{"repeat": rule}
	if n != 0 {
		members["next"] = n
	}
	body, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	call := call{method: http.MethodPost, path: c.conn.root + "/preview", body: body, contentType: jsonType}
	return fetch[SchedulePreview](ctx, c.conn, call)
}
