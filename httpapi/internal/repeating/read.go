package repeating

import (
	"fmt"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
	"github.com/belfryhq/belfry/repeat"
	"github.com/belfryhq/belfry/repeat/cron"
)

const (
	// mostAhead is the time from now until the latest start, end and anchor.
	mostAhead = task.MaxDelay
	// MaxJitter is the largest jitter of a rule.
	MaxJitter = 24 * time.Hour
)

// Source is the place in a request from which a rule is read.
type Source struct {
	Reader *contract.Reader
	Name   string    // of the rule's member: "repeat"
	Now    time.Time // from which the latest instants count
	Merged bool      // the rule is a merge patch (RFC 7396): a null restores a default
}

// Read reads a rule into m. It sets only the members that the request names, and checks each by itself: Rule checks the
// whole. An anchor that the request does not name goes with its interval.
func Read(s Source, m *fsmpb.Repeat) error {
	d := &draft{Source: s, m: m}
	if err := s.Reader.EachOnce(s.Name, s.Name+".", d.member); err != nil {
		return err
	}
	if m.EveryMs == 0 && !d.anchored {
		m.AnchorMs = nil
	}
	return nil
}

// draft is a rule that is being read.
type draft struct {
	Source
	m        *fsmpb.Repeat
	anchored bool // the request names the anchor
}

func (d *draft) member(name, full string) (known bool, err error) {
	m := d.m
	switch name {
	case "cron":
		err = assign(d, &m.Cron, func() ([]string, error) { return d.crons(full) })
	case "every":
		err = assign(d, &m.EveryMs, func() (int64, error) { return d.every(full) })
	case "anchor":
		d.anchored = true
		err = assign(d, &m.AnchorMs, func() (*int64, error) { return d.instant(full) })
	case "time_zone":
		err = assign(d, &m.TimeZone, func() (string, error) { return d.timeZone(full) })
	case "start":
		err = assign(d, &m.StartMs, func() (*int64, error) { return d.instant(full) })
	case "end":
		err = assign(d, &m.EndMs, func() (*int64, error) { return d.instant(full) })
	case "count":
		err = assign(d, &m.Count, func() (int64, error) { return d.Reader.Whole(full, 1, repeat.MaxCount) })
	case "except":
		err = assign(d, &m.Except, func() ([]string, error) { return d.texts(full, repeat.MaxExcepts) })
	case "calendar":
		err = assign(d, &m.Calendar, func() (string, error) { return d.calendar(full) })
	case "jitter":
		err = assign(d, &m.JitterMs, func() (int64, error) { return d.jitter(full) })
	default:
		return false, nil
	}
	return true, err
}

// assign reads a value into place. In a merge patch a null sets the default.
func assign[T any](d *draft, place *T, read func() (T, error)) error {
	return contract.Assign(d.Reader, d.Merged, place, read)
}

// crons reads the expressions. It refuses an expression whose weekdays Quartz counts differently.
func (d *draft) crons(full string) ([]string, error) {
	list, err := d.texts(full, repeat.MaxCrons)
	for i, text := range list {
		if wrong := cron.CheckQuartz(text); wrong != nil && err == nil {
			err = &task.FieldError{Field: fmt.Sprintf("%s[%d]", full, i), Detail: "is not clear in its " + wrong.Error()}
		}
	}
	return list, err
}

func (d *draft) texts(full string, most int) (list []string, err error) {
	err = d.Reader.Array(full, func(i int) error {
		if i == most {
			return &task.FieldError{Field: full, Detail: "has too many", Limit: fmt.Sprint(most)}
		}
		text, err := d.Reader.Text(fmt.Sprintf("%s[%d]", full, i))
		list = append(list, text)
		return err
	})
	if err == nil && len(list) == 0 {
		err = &task.FieldError{Field: full, Detail: "is empty", Limit: fmt.Sprintf("1 to %d", most)}
	}
	return list, err
}

// timeZone reads the name of a zone. It returns UTC, the default, as "".
func (d *draft) timeZone(full string) (string, error) {
	name, err := d.Reader.Text(full)
	switch {
	case err == nil && name == "":
		err = &task.FieldError{Field: full, Detail: "is empty"}
	case name == UTC:
		name = ""
	}
	return name, err
}

func (d *draft) calendar(full string) (string, error) {
	name, err := d.Reader.Text(full)
	if err != nil {
		return "", err
	}
	if wrong := task.CheckName(full, name); wrong != nil {
		return "", wrong
	}
	return name, nil
}

// every reads an interval, and returns milliseconds, rounded up.
func (d *draft) every(full string) (int64, error) {
	const limit = "100ms to 100 years (36500d)"
	interval, err := d.Reader.Duration(full)
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

// jitter reads the longest delay of an occurrence after its instant, and returns milliseconds, rounded up.
func (d *draft) jitter(full string) (int64, error) {
	const limit = "0s to 24h"
	most, err := d.Reader.Duration(full)
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

// instant reads an instant from 1970 to 100 years from now.
func (d *draft) instant(full string) (*int64, error) {
	text, err := d.Reader.Text(full)
	if err != nil {
		return nil, err
	}
	ms, err := contract.ParseInstant(text)
	switch {
	case err != nil:
		return nil, &task.FieldError{Field: full, Detail: err.Error()}
	case ms < 0 || ms > contract.CeilUnixMs(d.Now.Add(mostAhead)):
		return nil, &task.FieldError{Field: full, Detail: "is out of range",
			Limit: "1970-01-01T00:00:00Z to 100 years from now"}
	}
	return &ms, nil
}
