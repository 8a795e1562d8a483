package output

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/belfryhq/belfry/cmd/belfry/internal/instant"
)

// Table collects rows, and aligns their cells. It grows in memory, so adding rows never fails. The zero value has
// headers and no wide columns.
type Table struct {
	lines      []line
	wide, bare bool      // with wide columns; without headers
	sections   []section // in the order of their lines
	clock      Clock
}

// line is a line of a table, whose cells end at tabs. Those of rows stand below a header.
type line struct {
	text string
	row  bool
}

// IsWide reports whether the caller asked for more columns.
func (t *Table) IsWide() bool { return t.wide }

// Columns begins the rows of Cells with a header. The caller adds wide columns, the last ones, by Wide.
func (t *Table) Columns(names ...string) Header { return Header{t, names, len(names), nil} }

// Header is the first row of a table, until Print or the first call of Cells.
type Header struct {
	table *Table
	names []string
	shown int
	fits  []string
}

// Fit names the columns that a terminal shortens if the table is too wide for it, in their order. A wide table keeps
// them.
func (h Header) Fit(names ...string) Header {
	h.fits = names
	return h
}

// Wide adds the columns that only a wide table shows.
func (h Header) Wide(names ...string) Header {
	h.names = append(h.names, names...)
	if h.table.wide {
		h.shown = len(h.names)
	}
	return h
}

// Add adds the header to its table. Rows of Cells have its columns from now on.
func (h Header) Add() {
	t, s := h.table, section{from: len(h.table.lines), cells: h.shown}
	for _, name := range h.fits {
		if i := slices.Index(h.names[:h.shown], name); i >= 0 && !t.wide {
			s.fitted = append(s.fitted, fitted{i, max(utf8.RuneCountInString(name), leastCell)})
		}
	}
	t.sections = append(t.sections, s)
	if !t.bare {
		t.lines = append(t.lines, line{strings.Join(h.names[:h.shown], "\t"), true})
	}
}

// Cells adds a row with a value for each column of the last header. It leaves out the values of wide columns in a table
// that is not wide.
func (t *Table) Cells(values ...any) {
	texts := make([]string, min(t.sections[len(t.sections)-1].cells, len(values)))
	for i := range texts {
		texts[i] = Text(fmt.Sprint(values[i]))
	}
	t.lines = append(t.lines, line{strings.Join(texts, "\t"), true})
}

// Printable replaces a character that a terminal would obey, or that would end a cell or a line. Callers choose some of
// the texts of a cluster.
func Printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return utf8.RuneError
}

// Text returns a text of a cluster in one line, in which each character is Printable.
func Text(text string) string { return strings.Map(Printable, text) }

// Lines is Text for a text of several lines.
func Lines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return Printable(r)
	}, text)
}

// Row adds a line, whose cells are separated by the tabs of the format. Texts, errors and lists of texts among args are
// printed by Text: a caller's text neither ends a cell or a line nor reaches the terminal as a command.
func (t *Table) Row(format string, args ...any) {
	for i, arg := range args {
		args[i] = printed(arg)
	}
	t.lines = append(t.lines, line{text: fmt.Sprintf(format, args...)})
}

func printed(arg any) any {
	switch v := reflect.ValueOf(arg); {
	case v.Kind() == reflect.String:
		return Text(fmt.Sprint(arg))
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.String:
		return Text(fmt.Sprint(arg))
	}
	if err, ok := arg.(error); ok {
		return Text(err.Error())
	}
	return arg
}

// Field adds a line with a name and a value, unless the value is empty.
func (t *Table) Field(name, value string) {
	if value != "" {
		t.Row("%s\t%s", name, value)
	}
}

// Instant returns a time for a cell, by the clocks of the machine's zone and with its distance from now: "2026-11-29
// 09:00:00 CET, in 18h4m". The zero time is empty.
func (t *Table) Instant(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return instant.Describe(at, t.now(), time.Local)
}

// Since returns the time that has passed since an instant, or "" for nil.
func (t *Table) Since(at *time.Time) string {
	if at == nil {
		return ""
	}
	return instant.Span(max(t.now().Sub(*at).Round(time.Second), 0))
}

func (t *Table) now() time.Time {
	if t.clock == nil {
		return time.Now()
	}
	return t.clock.Now()
}

// Time adds a line with a name and a time to the millisecond, unless the time is zero.
func (t *Table) Time(name string, at time.Time) {
	if !at.IsZero() {
		_, distance, _ := strings.Cut(t.Instant(at), ", ")
		t.Field(name, instant.Stamp(at)+", "+distance)
	}
}

// Print writes the rows, without spaces at the ends of lines, and empties the table. On a terminal it shortens rows
// that are wider.
func (t *Table) Print(out io.Writer) error {
	if f, ok := out.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			t.fit(width)
		}
	}
	var aligned, text strings.Builder
	columns := tabwriter.NewWriter(&aligned, 0, 0, gap, ' ', 0)
	for _, l := range t.lines {
		_, _ = io.WriteString(columns, l.text+"\n") // into memory
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(aligned.String()) {
		text.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	t.lines = nil
	if n := len(t.sections); n > 0 { // rows may follow
		t.sections = t.sections[n-1:]
		t.sections[0].from = 0
	}
	_, err := io.WriteString(out, text.String())
	return err
}

const (
	gap       = 2 // spaces between columns
	leastCell = 8 // characters of a shortened cell
)

// fitted is a column that may be shortened, to no less than a number of characters.
type fitted struct{ column, least int }

// section is a header of a table with its rows.
type section struct {
	from   int      // line of the table
	cells  int      // number of cells that Cells prints
	fitted []fitted // in the order in which they are shortened
}

// fit shortens the cells of rows that are wider than a terminal: in each section column by column, until the rows fit
// or no column is left.
func (t *Table) fit(width int) {
	end := len(t.lines)
	for _, s := range slices.Backward(t.sections) {
		s.fit(t.lines[s.from:end], width)
		end = s.from
	}
}

func (s section) fit(lines []line, width int) {
	surplus := -width - gap
	for column := range s.cells {
		surplus += widthOf(lines, column) + gap
	}
	for _, f := range s.fitted {
		if surplus <= 0 {
			return
		}
		before := widthOf(lines, f.column)
		for i, l := range lines {
			if cells := strings.Split(l.text, "\t"); l.row && f.column < len(cells) {
				cells[f.column] = shortened(cells[f.column], max(before-surplus, f.least))
				lines[i].text = strings.Join(cells, "\t")
			}
		}
		surplus -= before - widthOf(lines, f.column)
	}
}

// widthOf returns the characters of the longest cell of a column.
func widthOf(lines []line, column int) int {
	width := 0
	for _, l := range lines {
		if cells := strings.Split(l.text, "\t"); l.row && column < len(cells) {
			width = max(width, utf8.RuneCountInString(cells[column]))
		}
	}
	return width
}

// distance is the end of a time that tells how far it is from now.
var distance = regexp.MustCompile(`^(\d{4}-\d\d-\d\d .*), .*$`)

// shortened returns a cell without the distance of a time, or with a text cut in its middle: both ends of an id and of
// a URL say more than its middle.
func shortened(cell string, width int) string {
	if utf8.RuneCountInString(cell) <= width {
		return cell
	}
	if m := distance.FindStringSubmatch(cell); m != nil {
		return m[1]
	}
	letters := []rune(cell)
	head := width / 2
	return string(letters[:head]) + "…" + string(letters[len(letters)-(width-head-1):])
}

// Grouped returns a number with commas between its thousands: 12,431.
func Grouped[N int | int64 | uint64](n N) string {
	text := fmt.Sprint(n)
	first := 0 // digit, behind the sign
	if n < 0 {
		first = 1
	}
	for i := len(text) - 3; i > first; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Many returns a number with its noun, as in "1 task" or "12,431 tasks".
func Many[N int | int64 | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Grouped(n) + " " + noun + "s"
}
