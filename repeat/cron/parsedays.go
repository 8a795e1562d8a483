package cron

import (
	"strings"
)

// parseDays reads the field of days of the month: besides lists, L, L-3, 15W, LW, L-3W and ?.
func (e *Expr) parseDays(text string) error {
	if text == "?" {
		text = "*"
	}
	for part := range strings.SplitSeq(text, ",") {
		special, err := parseDay(strings.ToUpper(part))
		if err != nil {
			return err
		}
		if special != nil {
			e.days = append(e.days, *special)
			continue
		}
		bits, _, err := dayOfMonth.part(part)
		if err != nil {
			return err
		}
		e.dayOfMonth |= bits
	}
	return nil
}

// parseDay reads one element with L or W. It returns nil if the element has neither.
func parseDay(text string) (*day, error) {
	rest, weekday := strings.CutSuffix(text, "W")
	before, last := strings.CutPrefix(rest, "L")
	switch {
	case last && before == "":
		return &day{fromEnd: true, weekday: weekday}, nil
	case last:
		digits, found := strings.CutPrefix(before, "-")
		n, err := number(digits)
		if !found || err != nil || n < 1 || n > 30 {
			return nil, &Error{Field: dayOfMonth.name, Text: clip(text), Detail: "is no day before the last",
				Limit: "L, LW, L-1 to L-30"}
		}
		return &day{fromEnd: true, n: n, weekday: weekday}, nil
	case weekday:
		n, err := number(rest)
		if err != nil || n < 1 || n > dayOfMonth.max {
			return nil, &Error{Field: dayOfMonth.name, Text: clip(text), Detail: "is no weekday nearest to one day",
				Limit: "1W to 31W, LW"}
		}
		return &day{n: n, weekday: true}, nil
	}
	return nil, nil
}

// parseWeekdays reads the field of days of the week: besides lists, 5L, FRIL, 5#3, FRI#3 and ?.
func (e *Expr) parseWeekdays(text string) error {
	if text == "?" {
		text = "*"
	}
	for part := range strings.SplitSeq(text, ",") {
		special, err := parseWeekday(strings.ToUpper(part))
		if err != nil {
			return err
		}
		if special != nil {
			e.weekdays = append(e.weekdays, *special)
			continue
		}
		bits, _, err := dayOfWeek.part(part)
		if err != nil {
			return err
		}
		e.dayOfWeek |= bits
	}
	return nil
}

// parseWeekday reads one element with # or L. It returns nil if the element has neither.
func parseWeekday(text string) (*nthWeekday, error) {
	if name, nth, found := strings.Cut(text, "#"); found {
		n, err := number(nth)
		if err != nil || n < 1 || n > 5 {
			return nil, &Error{Field: dayOfWeek.name, Text: clip(text), Detail: "counts weeks that a month has not",
				Limit: "#1 to #5"}
		}
		weekday, err := dayOfWeek.value(text, name)
		return &nthWeekday{weekday: weekday % 7, n: n}, err
	}
	if name, last := strings.CutSuffix(text, "L"); last {
		if name == "" {
			return nil, dayOfWeek.refuse(text, "names no day of the week, as FRIL does")
		}
		weekday, err := dayOfWeek.value(text, name)
		return &nthWeekday{weekday: weekday % 7}, err
	}
	return nil, nil
}

// CheckQuartz returns an *Error for an expression in the form of Quartz, of six fields with ? for the day of the month,
// that has a number for a day of the week: Quartz counts these from 1 for Sunday, and this package from 0. Parse reads
// such an expression, because schedules may have it.
func CheckQuartz(text string) error {
	fields := strings.Fields(text)
	if len(fields) != 6 || fields[3] != "?" {
		return nil
	}
	for part := range strings.SplitSeq(fields[5], ",") {
		days := part[:len(part)-len(strings.TrimLeft(part, "0123456789-"))]
		if strings.Trim(days, "-") == "" {
			continue
		}
		return &Error{Field: dayOfWeek.name, Text: clip(part), Detail: "is another day for Quartz, which counts from 1 for " +
			"Sunday, than here, where Sunday is 0: with ? for the day of the month, write names",
			Limit: "SUN to SAT, FRIL, FRI#3"}
	}
	return nil
}
