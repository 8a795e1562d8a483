package repeating

import (
	"errors"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/repeat"
	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/repeat/series"
)

// UTC is the name of the time zone of a rule that names none.
const UTC = "UTC"

// Rule checks a rule as a whole, by its calendar: nil for none. An interval without an anchor counts from its start, or
// else from made, the instant at which the rule is made. The error is a *task.FieldError that names the field, unless
// the time zones cannot be read.
func Rule(m *fsmpb.Repeat, c *calendar.Calendar, made time.Time) (*repeat.Rule, error) {
	spec, err := series.SpecOf(m, c)
	switch {
	case err != nil:
		return nil, fieldError(err)
	case m.EveryMs == 0 || m.AnchorMs != nil:
	case m.StartMs != nil:
		spec.Anchor = spec.Start
	default:
		spec.Anchor = made.Truncate(time.Millisecond)
	}
	rule, err := repeat.New(spec)
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
