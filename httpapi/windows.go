package httpapi

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/httpapi/internal/repeating"
	"github.com/belfryhq/belfry/internal/contract"
	"github.com/belfryhq/belfry/repeat/series"
)

// windowView is a window as answers show it.
type windowView struct {
	TimeZone string   `json:"time_zone,omitempty"`
	Daily    []string `json:"daily"`
	Days     string   `json:"days,omitempty"`
	Calendar string   `json:"calendar,omitempty"`
}

// window reads and checks the window of a task or a queue.
func (s *specReader) window() (err error) {
	if s.spec.Window, err = repeating.ReadWindow(s.r, contract.Window.String()); err != nil {
		return err
	}
	calendar := s.calendarOf(s.spec.Window.Calendar)
	return repeating.CheckWindow(s.spec.Window, calendar, s.now.at)
}

func appendWindow(b []byte, spec *fsmpb.Spec) []byte {
	w := spec.GetWindow()
	if w == nil {
		return b
	}
	text, err := json.Marshal(windowView{w.TimeZone, w.Daily, w.Days, w.Calendar})
	if err != nil {
		panic(fmt.Sprintf("httpapi: a window cannot be written: %v", err))
	}
	return append(contract.AppendName(b, contract.Window), text...)
}

// appendOpening appends whether a queue's window is open at now, and when a closed one opens.
func (s *queueService) appendOpening(b []byte, namespace string, w *fsmpb.Window, now time.Time) []byte {
	if w == nil {
		return b
	}
	var opens time.Time
	read, err := series.WindowOf(w, calendarOf(s.calendars, namespace, w.Calendar))
	if err == nil {
		opens, _ = read.Opens(now)
	}
	open := opens.Equal(now)
	b = contract.AppendBool(b, contract.WindowOpen, open)
	if open {
		return b
	}
	ms := int64(0)
	if !opens.IsZero() {
		ms = contract.CeilUnixMs(opens)
	}
	return contract.AppendTimeOrNull(b, contract.WindowOpensAt, ms)
}
