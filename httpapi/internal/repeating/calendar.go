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
	m, r := &fsmpb.Calendar{}, contract.NewReader(body)
	err := r.RootOnce(func(name, full string) (known bool, err error) {
		switch name {
		case "time_zone":
			m.TimeZone, err = r.Text(full)
		case "hours":
			err = r.Array(full, func(i int) error {
				h, err := readHours(r, fmt.Sprintf("%s[%d]", full, i))
				m.Hours = append(m.Hours, h)
				return tooMany(err, full, i, calendar.MaxHours)
			})
		case "closed":
			m.Closed, err = readTexts(r, full, calendar.MaxClosed)
		default:
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return nil, err
	}
	return m, checkCalendar(m)
}

func readHours(r *contract.Reader, name string) (*fsmpb.CalendarHours, error) {
	h := &fsmpb.CalendarHours{}
	err := r.EachOnce(name, name+".", func(member, full string) (known bool, err error) {
		switch member {
		case "days":
			h.Days, err = r.Text(full)
		case "daily":
			h.Daily, err = readTexts(r, full, hours.MaxRanges)
		default:
			return false, nil
		}
		return true, err
	})
	return h, err
}

// readTexts reads a list of at most most strings.
func readTexts(r *contract.Reader, list string, most int) (texts []string, err error) {
	err = r.Array(list, func(i int) error {
		text, err := r.Text(fmt.Sprintf("%s[%d]", list, i))
		texts = append(texts, text)
		return tooMany(err, list, i, most)
	})
	return texts, err
}

// tooMany returns err, or an error for the element i of a list that may have most ones.
func tooMany(err error, list string, i, most int) error {
	if err == nil && i >= most {
		return &task.FieldError{Field: list, Detail: "has too many elements", Limit: fmt.Sprint(most)}
	}
	return err
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
