package repeating

import (
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/repeat/hours"
	"github.com/belfryhq/belfry/repeat/series"
)

// ReadCalendar reads and checks a calendar in JSON. Its namespace and name are not set. The error is a *task.FieldError
// or one of package contract, unless the time zones cannot be read.
func ReadCalendar(body []byte) (*fsmpb.Calendar, error) {
	m := &fsmpb.Calendar{}
	err := contract.Members{
		"time_zone": contract.Text(&m.TimeZone),
		"hours": contract.Into(&m.Hours, func(r *contract.Reader, full string) ([]*fsmpb.CalendarHours, error) {
			return contract.List(r, full, calendar.MaxHours, tooMany(full, calendar.MaxHours), readHours)
		}),
		"closed": contract.Into(&m.Closed, texts(calendar.MaxClosed)),
	}.Root(body, false)
	if err != nil {
		return nil, err
	}
	return m, checkCalendar(m)
}

func readHours(r *contract.Reader, full string) (*fsmpb.CalendarHours, error) {
	h := &fsmpb.CalendarHours{}
	return h, contract.Members{
		"days": contract.Text(&h.Days), "daily": contract.Into(&h.Daily, texts(hours.MaxRanges)),
	}.Object(r, full, false)
}

// texts returns a reader of a list of at most most strings.
func texts(most int) func(r *contract.Reader, full string) ([]string, error) {
	return func(r *contract.Reader, full string) ([]string, error) {
		return contract.List(r, full, most, tooMany(full, most), (*contract.Reader).Text)
	}
}

func tooMany(list string, most int) error {
	return &task.FieldError{Field: list, Detail: "has too many elements", Limit: fmt.Sprint(most)}
}

// ImportCalendar reads a calendar from an iCalendar file that arrived at now; see calendar.Import. The error is a
// *task.FieldError.
func ImportCalendar(body []byte, now time.Time) (*fsmpb.Calendar, calendar.Imported, error) {
	in, err := calendar.Import(body, now)
	if err != nil {
		return nil, in, &task.FieldError{Field: "body", Detail: err.Error()}
	}
	m := &fsmpb.Calendar{Closed: in.Spec.Closed, KnownUntil: in.KnownUntil}
	return m, in, checkCalendar(m)
}

func checkCalendar(m *fsmpb.Calendar) error {
	_, err := calendar.New(series.CalendarOf(m))
	var wrong *calendar.FieldError
	if errors.As(err, &wrong) {
		return &task.FieldError{Field: wrong.Field, Detail: wrong.Detail, Limit: wrong.Limit}
	}
	return err
}

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
