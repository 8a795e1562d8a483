package httpapi

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/httpapi/internal/repeating"
	"github.com/belfryhq/belfry/internal/contract"
	"github.com/belfryhq/belfry/repeat"
	"github.com/belfryhq/belfry/repeat/calendar"
)

// The numbers of occurrences in a list of a schedule's.
const (
	usualOccurrences = 10
	mostOccurrences  = 100
)

// occurrenceCount reads a parameter: a number of occurrences.
func occurrenceCount(c echo.Context, parameter string) (int, error) {
	query := c.QueryParams()
	if !query.Has(parameter) {
		return usualOccurrences, nil
	}
	n, err := wholeParam(parameter, query.Get(parameter), 0, mostOccurrences)
	return int(n), err
}

// comingOccurrence is an occurrence that a rule names for the future.
type comingOccurrence struct {
	number         uint64
	scheduled, due int64     // Unix milliseconds
	local          time.Time // scheduled, in the rule's zone
	change         string    // effect of a clock change; empty: none
}

// comingOf returns at most n coming occurrences of a schedule, by its calendar: first those that the log holds, with
// their jitter, and then those that the rule names behind them.
func comingOf(s *fsmpb.Series, by *calendar.Calendar, n int) ([]comingOccurrence, error) {
	rule, err := repeating.Rule(s.Repeat, by, time.UnixMilli(s.AfterMs))
	if err != nil {
		return nil, err
	}
	list, after := make([]comingOccurrence, 0, n), s.AfterMs
	for i, next := range s.Next {
		if after = next.ScheduledMs; i < n {
			list = append(list, comingAt(rule, next.ScheduledMs, next.FireMs))
		}
	}
	if !s.Paused && !s.Complete {
		list = continued(list, rule, time.UnixMilli(after), comingCount(s, n))
	}
	for i := range list {
		list[i].number = s.Last + 1 + uint64(i)
	}
	return list, nil
}

// comingCount returns how many of n coming occurrences the rule's count allows.
func comingCount(s *fsmpb.Series, n int) int {
	if s.Repeat.GetCount() == 0 {
		return n
	}
	return int(min(int64(n), max(0, s.Repeat.Count-int64(s.Ruled))))
}

// comingAt returns the occurrence at an instant that a rule has named.
func comingAt(rule *repeat.Rule, scheduled, due int64) comingOccurrence {
	at := time.UnixMilli(scheduled)
	c := comingOccurrence{scheduled: scheduled, due: due, local: at.In(rule.Zone())}
	// The rule may name another instant today, with newer time zones than those of the leader.
	if o, ok := rule.Next(at.Add(-time.Millisecond)); ok && o.At.Equal(at) {
		c.change = string(o.Change)
	}
	return c
}

// continued adds occurrences of a rule after an instant until the list has n, or until exclusions take too many away.
func continued(list []comingOccurrence, rule *repeat.Rule, after time.Time, n int) []comingOccurrence {
	for excluded := 0; len(list) < n && excluded < repeat.MaxExcluded; {
		o, ok := rule.Next(after)
		if !ok {
			break
		}
		ms := o.At.UnixMilli()
		list = append(list, comingOccurrence{scheduled: ms, due: ms, local: o.At, change: string(o.Change)})
		after, excluded = o.At, excluded+len(o.Excluded)
	}
	return list
}

func (c comingOccurrence) append(b []byte) []byte {
	begin := len(b)
	b = contract.AppendUint(b, contract.Number, c.number)
	b = contract.AppendTime(b, contract.Due, c.due)
	b = contract.AppendTime(b, contract.Scheduled, c.scheduled)
	b = contract.AppendText(b, contract.Local, c.local.Format("2006-01-02T15:04:05.000-07:00"))
	return contract.Close(contract.AppendTextIf(b, contract.ClockChange, c.change), begin)
}

// writeOccurrences answers with the coming and the last occurrences of a schedule.
func (s *scheduleService) writeOccurrences(w http.ResponseWriter, next []comingOccurrence, last []lastOccurrence) {
	buffer := s.buffers.get()
	defer s.buffers.put(buffer)
	b := append(*buffer, `{"next":[`...)
	for i, o := range next {
		if i > 0 {
			b = append(b, ',')
		}
		b = o.append(b)
	}
	b = append(b, `],"last":[`...)
	for i, o := range last {
		if i > 0 {
			b = append(b, ',')
		}
		b = o.append(b)
	}
	b = append(b, "]}\n"...)
	writeJSON(w, http.StatusOK, b)
	*buffer = b
}
