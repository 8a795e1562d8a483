package output

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestRowsFitTheTerminal checks that rows keep to the width of a terminal: columns are shortened in their order, ids
// and URLs in the middle, times by their distance, and none further than needed.
func TestRowsFitTheTerminal(t *testing.T) {
	const id, url = "order-1042-close-2026-12-02", "https://shop.example/hooks/close"
	for _, c := range []struct {
		width int
		want  string
	}{
		{120, id + "  2026-12-02 05:22:15 CET, in 1h  " + url},
		{90, id + "  2026-12-02 05:22:15 CET, in 1h  https://shop.e…le/hooks/close"},
		{65, id + "  2026-12-02 05:22:15 CET  http…ose"},
		{50, "order-1…6-12-02  2026-12-02 05:22:15 CET  http…ose"},
		{20, "orde…-02  2026-12-02 05:22:15 CET  http…ose"}, // no terminal is so narrow
	} {
		table := new(Table)
		table.Row("a line that is no row, and stays as wide as it is whatever the width of the terminal may be, in full")
		table.Columns("ID", "FIRE AT", "TARGET").Fit("TARGET", "FIRE AT", "ID").Add()
		table.Cells(id, "2026-12-02 05:22:15 CET, in 1h", url)
		table.Cells("b", "2026-12-02 05:22:15 CET, in 1h", "http://x")
		table.fit(c.width)
		var out strings.Builder
		if err := table.Print(&out); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(out.String(), "\n")
		if strings.Join(strings.Fields(lines[2]), " ") != strings.Join(strings.Fields(c.want), " ") ||
			!strings.HasSuffix(lines[0], ", in full") || !strings.HasSuffix(lines[3], "  http://x") {
			t.Errorf("width %d:\n%swant\n%s", c.width, &out, c.want)
		}
		for _, line := range lines[1:] {
			if n := utf8.RuneCountInString(line); n > max(c.width, 43) {
				t.Errorf("width %d: a line of %d: %s", c.width, n, line)
			}
		}
	}
	two := new(Table)
	two.Columns("ID", "TARGET").Fit("ID").Add()
	two.Cells(id, "x")
	two.Row("")
	two.Columns("TARGET", "ID").Fit("TARGET").Add()
	two.Cells(url, id)
	if two.fit(40); !strings.Contains(two.lines[1].text, id) || !strings.HasPrefix(two.lines[4].text, "http") ||
		!strings.HasSuffix(two.lines[4].text, "…close\t"+id) {
		t.Errorf("each header with its rows is fitted by itself: %v", two.lines)
	}
	wide := &Table{wide: true}
	wide.Columns("ID").Fit("ID").Add()
	wide.Cells(id)
	if wide.fit(10); !strings.Contains(wide.lines[1].text, id) {
		t.Error("a wide table is shortened")
	}
}
