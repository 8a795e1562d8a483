package output

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	gap       = 2 // spaces between columns
	leastCell = 8 // characters of a shortened cell
)

// fitted is a column that may be shortened, to no less than a number of characters.
type fitted struct{ column, least int }

// fit shortens the cells of rows that are wider than a terminal, column by column, until the rows fit or no column is
// left.
func (t *Table) fit(width int) {
	surplus := -width - gap
	for column := range t.cells {
		surplus += t.widthOf(column) + gap
	}
	for _, f := range t.fitted {
		if surplus <= 0 {
			return
		}
		before := t.widthOf(f.column)
		for i, l := range t.lines {
			if cells := strings.Split(l.text, "\t"); l.row && f.column < len(cells) {
				cells[f.column] = shortened(cells[f.column], max(before-surplus, f.least))
				t.lines[i].text = strings.Join(cells, "\t")
			}
		}
		surplus -= before - t.widthOf(f.column)
	}
}

// widthOf returns the characters of the longest cell of a column.
func (t *Table) widthOf(column int) int {
	width := 0
	for _, l := range t.lines {
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
