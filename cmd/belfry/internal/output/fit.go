package output

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

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
