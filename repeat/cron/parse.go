package cron

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxLength is the longest expression in bytes.
const MaxLength = 256

// Error reports why an expression is refused.
type Error struct {
	Field  string // "hour"; empty: the expression as a whole
	Text   string // the part that is wrong
	Detail string // continues a sentence that begins with Text: "is not a value of this field"
	Limit  string // the values that are allowed; empty: none to name
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%q %s", e.Text, e.Detail)
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	if e.Limit != "" {
		text += " (" + e.Limit + ")"
	}
	return text
}

// field describes one of the six fields.
type field struct {
	name     string
	min, max int
	names    string // three letters for each value from min on; empty: numbers only
}

const (
	months   = "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"
	weekdays = "SUNMONTUEWEDTHUFRISAT"
)

var (
	second     = field{name: "second", max: 59}
	minute     = field{name: "minute", max: 59}
	hour       = field{name: "hour", max: 23}
	dayOfMonth = field{name: "day of month", min: 1, max: 31}
	month      = field{name: "month", min: 1, max: 12, names: months}
	dayOfWeek  = field{name: "day of week", max: 7, names: weekdays}
)

// limit describes the values of a field.
func (f *field) limit() string {
	if f.names == "" {
		return fmt.Sprintf("%d-%d", f.min, f.max)
	}
	return fmt.Sprintf("%d-%d or %s-%s", f.min, f.max, f.names[:3], f.names[len(f.names)-3:])
}

func (f *field) refuse(text, detail string) error {
	return &Error{Field: f.name, Text: clip(text), Detail: detail, Limit: f.limit()}
}

// clip shortens a caller's text for a message.
func clip(text string) string {
	const most = 64
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// macros are the names of common expressions.
var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// Parse reads an expression of five fields (minute, hour, day of month, month, day of week), of six with the second in
// front, or one of the macros. The error is an *Error.
func Parse(text string) (*Expr, error) {
	if len(text) > MaxLength {
		return nil, &Error{Text: clip(text), Detail: fmt.Sprintf("has %d bytes", len(text)),
			Limit: fmt.Sprintf("%d bytes", MaxLength)}
	}
	fields := strings.Fields(text)
	if len(fields) == 1 {
		if full, ok := macros[strings.ToLower(fields[0])]; ok {
			fields = strings.Fields(full)
		}
	}
	if err := checkShape(text, fields); err != nil {
		return nil, err
	}
	e := &Expr{text: strings.Join(strings.Fields(text), " "), seconds: len(fields) == 6}
	if !e.seconds {
		fields = append([]string{"0"}, fields...)
	}
	if err := e.parse([6]string(fields)); err != nil {
		return nil, err
	}
	if _, fires := e.nextWall(0, repeatsAfter); !fires {
		return nil, &Error{Text: clip(e.text), Detail: "never fires: no month that it names has such a day"}
	}
	return e, nil
}

// checkShape refuses an expression with a wrong number of fields, and those of other services by name.
func checkShape(text string, fields []string) error {
	detail, limit := "", "5 or 6 fields"
	switch first := strings.ToLower(strings.Join(fields[:min(1, len(fields))], "")); {
	case strings.HasPrefix(first, "tz=") || strings.HasPrefix(first, "cron_tz="):
		detail, limit = "names a time zone: the zone stands in time_zone", ""
	case first == "@every":
		detail, limit = "is no cron expression: an interval stands in every", ""
	case strings.HasPrefix(first, "@"):
		detail, limit = "is no known name", "@hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually"
	case len(fields) == 7:
		detail = "has 7 fields: the year is no field, start and end bound a rule"
	case len(fields) != 5 && len(fields) != 6:
		detail = fmt.Sprintf("has %d fields", len(fields))
	default:
		return nil
	}
	return &Error{Text: clip(text), Detail: detail, Limit: limit}
}

func (e *Expr) parse(texts [6]string) (err error) {
	for i, f := range []struct {
		of   *field
		into *uint64
	}{{&second, &e.second}, {&minute, &e.minute}, {&hour, &e.hour}} {
		var interval bool
		if *f.into, interval, err = f.of.list(texts[i]); err != nil {
			return err
		}
		e.interval = e.interval || interval
	}
	if e.month, _, err = month.list(texts[4]); err != nil {
		return err
	}
	if err = e.parseDays(texts[3]); err != nil {
		return err
	}
	if err = e.parseWeekdays(texts[5]); err != nil {
		return err
	}
	e.either = !open(texts[3]) && !open(texts[5])
	return nil
}

// open reports whether a field of days begins with * or ?, and so does not choose days by itself.
func open(text string) bool { return text[0] == '*' || text[0] == '?' }

// list reads a list of values, ranges and steps. The result has a bit for each value. interval reports whether the list
// has a *, a range or a step.
func (f *field) list(text string) (bits uint64, interval bool, err error) {
	for part := range strings.SplitSeq(text, ",") {
		some, many, err := f.part(part)
		if err != nil {
			return 0, false, err
		}
		bits, interval = bits|some, interval || many
	}
	return bits, interval, nil
}

// part reads one element of a list: "*", "5", "1-5", each perhaps with a step: "*/15", "5/15", "1-5/2".
func (f *field) part(text string) (bits uint64, interval bool, err error) {
	span, step, stepped := strings.Cut(text, "/")
	by := 1
	if stepped {
		if by, err = f.step(text, step); err != nil {
			return 0, false, err
		}
	}
	first, last, ranged := strings.Cut(span, "-")
	from, to := f.min, f.max
	switch {
	case span == "*":
		return f.span(from, f.top(), by), true, nil
	case ranged:
		if to, err = f.value(text, last); err != nil {
			return 0, false, err
		}
	case stepped:
		to = f.top()
	}
	if from, err = f.value(text, first); err != nil {
		return 0, false, err
	}
	if !ranged && !stepped {
		to = from
	}
	return f.span(from, to, by), ranged || stepped, nil
}

// top is the last value of *, without the second number of Sunday.
func (f *field) top() int {
	if f == &dayOfWeek {
		return 6
	}
	return f.max
}

// span returns the bits of a range. A range whose end lies before its beginning goes on past the last value: 22-2.
func (f *field) span(from, to, by int) (bits uint64) {
	size := f.top() - f.min + 1
	if to < from {
		to += size
	}
	for v := from; v <= to; v += by {
		bits |= 1 << (f.min + (v-f.min)%size)
	}
	return bits
}

func (f *field) step(text, step string) (int, error) {
	n, err := number(step)
	if err != nil || n < 1 || n > f.max {
		return 0, &Error{Field: f.name, Text: clip(text), Detail: "has a step that this field cannot take",
			Limit: fmt.Sprintf("1-%d", f.max)}
	}
	return n, nil
}

// value reads a number or a name. text is the element for the message.
func (f *field) value(text, value string) (int, error) {
	if len(value) == 3 && f.names != "" {
		if at := strings.Index(f.names, strings.ToUpper(value)); at >= 0 && at%3 == 0 {
			return f.min + at/3, nil
		}
	}
	n, err := number(value)
	switch {
	case value == "":
		return 0, f.refuse(text, "lacks a value")
	case err != nil:
		return 0, f.refuse(text, "is no value of this field")
	case n < f.min || n > f.max:
		return 0, f.refuse(text, "is outside of this field")
	}
	return n, nil
}

// number reads at most four decimal digits.
func number(text string) (int, error) {
	if text == "" || len(text) > 4 || strings.Trim(text, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(text)
}
