package repeating

import (
	"errors"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/repeat/hours"
	"github.com/belfryhq/belfry/repeat/series"
)

// ReadWindow reads a window, an object with the given name. The error is a *task.FieldError or one of package contract.
func ReadWindow(r *contract.Reader, name string) (*fsmpb.Window, error) {
	m := &fsmpb.Window{}
	return m, contract.Members{
		"time_zone": contract.Text(&m.TimeZone),
		"days":      contract.Text(&m.Days),
		"daily":     contract.Into(&m.Daily, texts(hours.MaxRanges)),
		"calendar":  contract.Into(&m.Calendar, readName),
	}.Object(r, name, false)
}

// CheckWindow checks a window by its calendar, nil if there is none. The error is a *task.FieldError, unless the
// embedded time zones cannot be read.
func CheckWindow(m *fsmpb.Window, c *calendar.Calendar, now time.Time) error {
	w, err := series.WindowOf(m, c)
	var wrong *hours.FieldError
	switch {
	case errors.As(err, &wrong):
		return &task.FieldError{Field: "window." + wrong.Field, Detail: wrong.Detail, Limit: wrong.Limit}
	case err != nil:
		return err
	}
	if _, ok := w.Opens(now); !ok {
		return &task.FieldError{Field: "window", Detail: "is never open", Limit: "an opening within ten years"}
	}
	return nil
}
