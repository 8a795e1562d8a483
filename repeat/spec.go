package repeat

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/belfryhq/belfry/repeat/cron"
	"github.com/belfryhq/belfry/repeat/zone"
)

// The limits of a rule.
const (
	MaxCrons   = 16
	MaxExcepts = 100
	MaxCount   = 1_000_000_000

	MinEvery = 100 * time.Millisecond
	MaxEvery = 100 * 365 * 24 * time.Hour
)

// Spec is a rule as a caller gives it. Instants are kept in whole milliseconds.
type Spec struct {
	Cron     []string      // expressions, united
	Every    time.Duration // an interval, instead of Cron; 0: none
	Anchor   time.Time     // of Every
	TimeZone string        // of the IANA database; empty: UTC
	Start    time.Time     // first instant of the rule; zero: none
	End      time.Time     // last instant of the rule; zero: none
	Count    int64         // most occurrences; 0: no limit
	Except   []string      // dates, ranges of dates, instants and cron expressions
	Calendar Calendar      // takes the instants away at which it is closed
}

// Calendar is a calendar under its name. The zero Calendar takes nothing away.
type Calendar struct {
	Name    string
	Opening Opening
}

// Opening tells when a calendar is open.
type Opening interface {
	// Opens returns the first instant at or after t at which the calendar is open. It reports false if there is none.
	Opens(t time.Time) (opens time.Time, ok bool)
}

// FieldError reports a wrong field of a Spec.
type FieldError struct {
	Field  string // as in JSON: "cron[1]"
	Detail string // continues a sentence that begins with the field
	Limit  string // empty: none
}

func (e *FieldError) Error() string {
	if e.Limit != "" {
		return fmt.Sprintf("%s %s (limit %s)", e.Field, e.Detail, e.Limit)
	}
	return e.Field + " " + e.Detail
}

// Rule is a checked Spec. It never changes.
type Rule struct {
	crons          []*cron.Expr
	every, anchor  int64 // milliseconds
	zone           *time.Location
	start, end     time.Time
	count          int64
	exclusionRules []exclusionRule
	calendar       Calendar
}

// Count is the largest number of occurrences, or 0 without a limit.
func (r *Rule) Count() int64 { return r.count }

// Zone is the time zone of the rule.
func (r *Rule) Zone() *time.Location { return r.zone }

// New checks a rule. The error is a *FieldError, unless the embedded time zones cannot be read.
func New(spec Spec) (*Rule, error) {
	r := &Rule{start: spec.Start, end: spec.End, count: spec.Count, calendar: spec.Calendar}
	if err := r.setZone(spec.TimeZone); err != nil {
		return nil, err
	}
	if err := r.setTimes(&spec); err != nil {
		return nil, err
	}
	if err := r.setExcepts(spec.Except); err != nil {
		return nil, err
	}
	switch {
	case !spec.Start.IsZero() && !spec.End.IsZero() && spec.End.Before(spec.Start):
		return nil, &FieldError{Field: "end", Detail: "is before start"}
	case spec.Count < 0 || spec.Count > MaxCount:
		return nil, &FieldError{Field: "count", Detail: "is out of range", Limit: fmt.Sprintf("1 to %d", MaxCount)}
	}
	return r, nil
}

func (r *Rule) setZone(name string) (err error) {
	if name == "" {
		name = "UTC"
	}
	var unknown *zone.UnknownError
	if r.zone, err = zone.Load(name); errors.As(err, &unknown) {
		return &FieldError{Field: "time_zone", Detail: "is wrong: " + err.Error()}
	}
	return err
}

func (r *Rule) setTimes(spec *Spec) error {
	switch {
	case len(spec.Cron) == 0 && spec.Every == 0:
		return &FieldError{Field: "cron", Detail: "is absent, and so is every: say when with exactly one of them"}
	case len(spec.Cron) > 0 && spec.Every != 0:
		return &FieldError{Field: "every", Detail: "and cron are both given: say when with exactly one of them"}
	case spec.Every != 0:
		return r.setEvery(spec)
	case len(spec.Cron) > MaxCrons:
		return &FieldError{Field: "cron", Detail: "has too many expressions", Limit: fmt.Sprint(MaxCrons)}
	case !spec.Anchor.IsZero():
		return &FieldError{Field: "anchor", Detail: "belongs to every, and cron is given"}
	}
	for i, text := range spec.Cron {
		e, err := cron.Parse(text)
		if err != nil {
			return wrongCron(fmt.Sprintf("cron[%d]", i), err)
		}
		r.crons = append(r.crons, e)
	}
	return nil
}

func (r *Rule) setEvery(spec *Spec) error {
	if spec.Every < MinEvery || spec.Every > MaxEvery {
		return &FieldError{Field: "every", Detail: "is out of range", Limit: "100ms to 100 years (36500d)"}
	}
	r.every, r.anchor = ceilMs(spec.Every), spec.Anchor.UnixMilli()
	return nil
}

func ceilMs(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// wrongCron words the error of an expression.
func wrongCron(field string, err error) error {
	var wrong *cron.Error
	if !errors.As(err, &wrong) {
		return err
	}
	detail := fmt.Sprintf("is wrong: %q %s", wrong.Text, wrong.Detail)
	if wrong.Field != "" {
		detail = fmt.Sprintf("is wrong in the %s: %q %s", wrong.Field, wrong.Text, wrong.Detail)
	}
	return &FieldError{Field: field, Detail: detail, Limit: wrong.Limit}
}

// exclusionRule is one element of Except. Exactly one of its kinds is set.
type exclusionRule struct {
	text        string
	at          time.Time // an instant
	first, last string    // dates, both included
	cron        *cron.Expr
}

func (r *Rule) setExcepts(texts []string) error {
	if len(texts) > MaxExcepts {
		return &FieldError{Field: "except", Detail: "has too many elements", Limit: fmt.Sprint(MaxExcepts)}
	}
	for i, text := range texts {
		rule, err := parseExcept(fmt.Sprintf("except[%d]", i), text)
		if err != nil {
			return err
		}
		r.exclusionRules = append(r.exclusionRules, rule)
	}
	return nil
}

// parseExcept reads an exclusion. The first characters tell its kind.
func parseExcept(field, text string) (exclusionRule, error) {
	rule := exclusionRule{text: text}
	if !startsWithYear(text) {
		e, err := cron.Parse(text)
		if err != nil {
			return rule, wrongCron(field, err)
		}
		rule.cron = e
		return rule, nil
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		rule.at = at
		return rule, nil
	}
	first, last, ranged := strings.Cut(text, "/")
	if !ranged {
		last = first
	}
	if !isDate(first) || !isDate(last) {
		return rule, &FieldError{Field: field, Detail: "is no exclusion: it must be a date like 2026-12-25, a range of " +
			"dates like 2026-12-24/2027-01-01, an instant of RFC 3339 or a cron expression"}
	}
	if last < first {
		return rule, &FieldError{Field: field, Detail: "ends before it begins"}
	}
	rule.first, rule.last = first, last
	return rule, nil
}

func startsWithYear(text string) bool {
	return len(text) > 4 && text[4] == '-' && strings.Trim(text[:4], "0123456789") == ""
}

func isDate(text string) bool {
	_, err := time.Parse(time.DateOnly, text)
	return err == nil
}
