package repeating

import (
	"errors"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/repeat"
	"github.com/belfryhq/belfry/repeat/series"
)

// UTC is the name of the time zone of a rule that names none.
const UTC = "UTC"

// Rule checks a rule as a whole. An interval without an anchor counts from its start, or else from made, the instant at
// which the rule is made. The error is a *task.FieldError that names the field, unless the time zones cannot be read.
func Rule(m *fsmpb.Repeat, made time.Time) (*repeat.Rule, error) {
	spec := series.SpecOf(m)
	switch {
	case m.EveryMs == 0 || m.AnchorMs != nil:
	case m.StartMs != nil:
		spec.Anchor = spec.Start
	default:
		spec.Anchor = made.Truncate(time.Millisecond)
	}
	rule, err := repeat.New(spec)
	var wrong *repeat.FieldError
	if errors.As(err, &wrong) {
		return nil, &task.FieldError{Field: "repeat." + wrong.Field, Detail: wrong.Detail, Limit: wrong.Limit}
	}
	return rule, err
}
