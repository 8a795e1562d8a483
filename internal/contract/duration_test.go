package contract

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
)

// shared reads a table of texts and their meanings from testdata.
func shared(t testing.TB, name string) map[string]string {
	t.Helper()
	table, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(table)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		text, want, found := strings.Cut(strings.TrimPrefix(line, `"`), `" `)
		if !found {
			t.Fatalf("a row is %s", line)
		}
		rows[text] = want
	}
	return rows
}

func TestDurationTable(t *testing.T) {
	for text, want := range shared(t, "durations.txt") {
		got := "refused"
		d, err := ParseDuration(text)
		if err == nil {
			got = strconv.FormatInt(int64(d), 10)
		}
		if got != want {
			t.Errorf("%q: %s (%v), want %s", text, got, err, want)
		}
		if err != nil && strings.ContainsAny(strings.TrimPrefix(text, "P"), "YM") && !strings.Contains(text, "T") &&
			!errors.Is(err, ErrCalendar) {
			t.Errorf("%q: the error does not speak of years and months: %v", text, err)
		}
	}
}

func TestInstantTable(t *testing.T) {
	for text, want := range shared(t, "instants.txt") {
		got := "refused"
		ms, err := ParseInstant(text)
		if err == nil {
			got = strconv.FormatInt(ms, 10)
		}
		if got != want {
			t.Errorf("%q: %s (%v), want %s", text, got, err, want)
		}
	}
}
