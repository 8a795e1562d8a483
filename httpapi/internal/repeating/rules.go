package repeating

import (
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
	"github.com/belfryhq/belfry/repeat"
	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/repeat/cron"
	"github.com/belfryhq/belfry/repeat/series"
)

const (
	// mostAhead is the time from now until the latest start, end and anchor.
	mostAhead = task.MaxDelay
	// UTC is the name of the time zone of a rule that names none.
	UTC = "UTC"
	// MaxJitter is the largest jitter of a rule.
	MaxJitter = 24 * time.Hour
)

// Member returns the member that reads a rule into m, in a request that came at now. It sets only the members that the
// request names, and checks each by itself: Rule checks the whole. An anchor that the request does not name goes with
// its interval.
func Member(m *fsmpb.Repeat, now time.Time) contract.Member {
	instant := func(r *contract.Reader, full string) (*int64, error) { return readInstant(r, full, now) }
	return func(r *contract.Reader, full string, merged bool) error {
		anchored := false
		err := contract.Members{
			"cron":  contract.Into(&m.Cron, readCrons),
			"every": contract.Into(&m.EveryMs, readEvery),
			"anchor": func(r *contract.Reader, full string, merged bool) error {
				anchored = true
				return contract.Into(&m.AnchorMs, instant)(r, full, merged)
			},
			"time_zone": contract.Into(&m.TimeZone, readZone),
			"start":     contract.Into(&m.StartMs, instant),
			"end":       contract.Into(&m.EndMs, instant),
			"count":     contract.Whole(&m.Count, 1, repeat.MaxCount),
			"except": contract.Into(&m.Except, func(r *contract.Reader, full string) ([]string, error) {
				return readSome(r, full, repeat.MaxExcepts)
			}),
			"calendar": contract.Into(&m.Calendar, readCalendarName),
			"jitter":   contract.Into(&m.JitterMs, readJitter),
		}.Object(r, full, merged)
		if err == nil && m.EveryMs == 0 && !anchored {
			m.AnchorMs = nil
		}
		return err
	}
}

// readCrons reads the expressions. It refuses an expression whose weekdays Quartz counts differently.
func readCrons(r *contract.Reader, full string) ([]string, error) {
	list, err := readSome(r, full, repeat.MaxCrons)
	for i, text := range list {
		if wrong := cron.CheckQuartz(text); wrong != nil && err == nil {
			err = &task.FieldError{Field: fmt.Sprintf("%s[%d]", full, i), Detail: "is not clear in its " + wrong.Error()}
		}
	}
	return list, err
}

// readSome reads a list of at least one string.
func readSome(r *contract.Reader, full string, most int) ([]string, error) {
	tooMany := &task.FieldError{Field: full, Detail: "has too many", Limit: fmt.Sprint(most)}
	list, err := contract.List(r, full, most, tooMany, (*contract.Reader).Text)
	if err == nil && len(list) == 0 {
		err = &task.FieldError{Field: full, Detail: "is empty", Limit: fmt.Sprintf("1 to %d", most)}
	}
	return list, err
}

// readZone reads the name of a time zone. It returns UTC, the default, as "".
func readZone(r *contract.Reader, full string) (string, error) {
	name, err := readName(r, full)
	if name == UTC {
		name = ""
	}
	return name, err
}

// readName reads a string that is not empty.
func readName(r *contract.Reader, full string) (string, error) {
	name, err := r.Text(full)
	if err == nil && name == "" {
		err = &task.FieldError{Field: full, Detail: "is empty"}
	}
	return name, err
}

func readCalendarName(r *contract.Reader, full string) (string, error) {
	name, err := r.Text(full)
	if err != nil {
		return "", err
	}
	if wrong := task.CheckName(full, name); wrong != nil {
		return "", wrong
	}
	return name, nil
}

// readEvery reads an interval, and returns milliseconds, rounded up.
func readEvery(r *contract.Reader, full string) (int64, error) {
	const limit = "100ms to 100 years (36500d)"
	interval, err := r.Duration(full)
	switch {
	case err != nil:
		return 0, err
	case interval < repeat.MinEvery:
		return 0, &task.FieldError{Field: full, Detail: "is too short", Limit: limit}
	case interval > repeat.MaxEvery:
		return 0, &task.FieldError{Field: full, Detail: "is too long", Limit: limit}
	}
	return contract.CeilMs(interval), nil
}

// readJitter reads the longest delay of an occurrence after its instant, and returns milliseconds, rounded up.
func readJitter(r *contract.Reader, full string) (int64, error) {
	const limit = "0s to 24h"
	most, err := r.Duration(full)
	switch {
	case err != nil:
		return 0, err
	case most < 0:
		return 0, &task.FieldError{Field: full, Detail: "is negative", Limit: limit}
	case most > MaxJitter:
		return 0, &task.FieldError{Field: full, Detail: "is too long", Limit: limit}
	}
	return contract.CeilMs(most), nil
}

// readInstant reads an instant from 1970 to 100 years from now.
func readInstant(r *contract.Reader, full string, now time.Time) (*int64, error) {
	text, err := r.Text(full)
	if err != nil {
		return nil, err
	}
	ms, err := contract.ParseInstant(text)
	switch {
	case err != nil:
		return nil, &task.FieldError{Field: full, Detail: err.Error()}
	case ms < 0 || ms > contract.CeilUnixMs(now.Add(mostAhead)):
		return nil, &task.FieldError{Field: full, Detail: "is out of range",
			Limit: "1970-01-01T00:00:00Z to 100 years from now"}
	}
	return &ms, nil
}

// Rule checks a rule as a whole, by its calendar: nil for none. An interval without an anchor counts from its start, or
// else from made, the instant at which the rule is made. The error is a *task.FieldError that names the field, unless
// the time zones cannot be read.
func Rule(m *fsmpb.Repeat, c *calendar.Calendar, made time.Time) (*repeat.Rule, error) {
	rule, err := series.Made(m, c, made)
	return rule, fieldError(err)
}

// fieldError returns an error with the field's name in a request, if the error has a field.
func fieldError(err error) error {
	var wrong *repeat.FieldError
	if errors.As(err, &wrong) {
		return &task.FieldError{Field: "repeat." + wrong.Field, Detail: wrong.Detail, Limit: wrong.Limit}
	}
	return err
}
