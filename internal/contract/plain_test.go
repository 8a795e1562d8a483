package contract

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestPlainStopsWhereItMust tries every byte at every place of two words, alone and before another byte.
func TestPlainStopsWhereItMust(t *testing.T) {
	const length = 16
	for at := range length {
		for c := range 256 {
			for _, behind := range []byte{'a', '"', '\\', 0x1f, 0x80, 0xff} {
				b := bytes.Repeat([]byte{'a'}, length)
				b[min(at+1, length-1)], b[at] = behind, byte(c)
				n, ascii := plain(b)
				want, wantASCII := plainByByte(b)
				if n != want || ascii != wantASCII {
					t.Fatalf("%q: %d bytes, ASCII %v; want %d, %v", b, n, ascii, want, wantASCII)
				}
			}
		}
	}
}

func plainByByte(b []byte) (n int, ascii bool) {
	ascii = true
	for ; n < len(b) && b[n] != '"' && b[n] != '\\' && b[n] >= ' '; n++ {
		ascii = ascii && b[n] < utf8.RuneSelf
	}
	return n, ascii
}

// TestPlainLooksAtWords checks that plain leaves a rest shorter than eight bytes to its caller.
func TestPlainLooksAtWords(t *testing.T) {
	if n, ascii := plain([]byte("0123456")); n != 0 || !ascii {
		t.Errorf("%d of 7 bytes, ASCII %v", n, ascii)
	}
	if n, ascii := plain([]byte("0123456789")); n != 8 || !ascii {
		t.Errorf("%d of 10 bytes, ASCII %v", n, ascii)
	}
}

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
