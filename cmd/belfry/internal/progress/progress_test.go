package progress

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// meter returns a meter with a clock that the test sets, at a terminal of some columns if width is not 0.
func meter(out io.Writer, width int) (*Meter, *time.Time) {
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	m := New(out)
	m.now = func() time.Time { return now }
	if width > 0 {
		m.width = func() int { return width }
	}
	return m, &now
}

// Away from a terminal there is a line every ten seconds at most, with the progress since the first state.
func TestPlainLines(t *testing.T) {
	var out bytes.Buffer
	m, now := meter(&out, 0)
	for second := range 31 {
		m.Show(State{Work: "cancel", Count: int64(5000 + 1000*second), Unit: "tasks", Share: 0.1 + 0.02*float64(second)})
		*now = now.Add(time.Second)
	}
	m.Close()
	want := "cancel: 30 %, 15,000 tasks, 1,000 tasks/s, about 35s left\n" +
		"cancel: 50 %, 25,000 tasks, 1,000 tasks/s, about 25s left\n" +
		"cancel: 70 %, 35,000 tasks, 1,000 tasks/s, about 15s left\n"
	if out.String() != want {
		t.Errorf("printed\n%swant\n%s", &out, want)
	}
}

// Work that stands still says why, and has no rate and no end. Short work says nothing.
func TestWaitingWork(t *testing.T) {
	var out bytes.Buffer
	m, now := meter(&out, 0)
	waits := State{Work: "drain n3", Count: 1, Unit: "replicas", Share: 0.5, Waits: "node n4 does not answer"}
	m.Show(waits)
	if out.Len() > 0 {
		t.Errorf("printed at once: %s", &out)
	}
	*now = now.Add(time.Minute)
	m.Show(waits)
	if want := "drain n3: 50 %, 1 replicas, waits: node n4 does not answer\n"; out.String() != want {
		t.Errorf("printed %q, want %q", &out, want)
	}
	out.Reset()
	*now = now.Add(time.Minute)
	m.Show(State{Work: "drain n3", Share: Unknown})
	if want := "drain n3: under way\n"; out.String() != want {
		t.Errorf("printed %q, want %q", &out, want)
	}
}

// On a terminal there is one line, no longer than the terminal, and it is gone at the end.
func TestBar(t *testing.T) {
	var out bytes.Buffer
	m, now := meter(&out, 70)
	m.Show(State{Work: "cancel", Count: 0, Unit: "tasks", Share: 0})
	*now = now.Add(10 * time.Second)
	m.Show(State{Work: "cancel tasks of a queue", Count: 6000, Unit: "tasks", Share: 0.6})
	assert.Contains(t, out.String(), "cancel …: 6,000 tasks, 600 tasks/s, ab…  60% |", "printed %q", &out)
	m.Show(State{Work: "drain n3", Count: 1, Unit: "replicas", Share: 0.6, Waits: strings.Repeat("é", 100)})
	assert.Contains(t, out.String(), "drain n3: 1 replicas, about 7s left, w…", "printed %q", &out)
	m.Show(State{Work: "cancel", Count: 10000, Unit: "tasks", Share: 1})
	m.Close()
	m.Close()
	if strings.Contains(out.String(), "\n") {
		t.Errorf("more than a line: %q", &out)
	}
	last := out.String()[strings.LastIndex(strings.TrimRight(out.String(), "\r"), "\r")+1:]
	assert.Equal(t, strings.TrimSpace(strings.ReplaceAll(last, "\x1b[2K", "")), "", "the line ends as %q", last)
	for line := range strings.SplitSeq(out.String(), "\r") {
		if n := len([]rune(strings.ReplaceAll(line, "\x1b[2K", ""))); n > 70 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}

// Bytes pass as they are, and are counted.
func TestBytes(t *testing.T) {
	var notes, out bytes.Buffer
	m, now := meter(&notes, 0)
	w := m.Writer(&out, "backup", 4<<20)
	for range 2 {
		if n, err := w.Write(make([]byte, 1<<20)); n != 1<<20 || err != nil {
			t.Fatal(n, err)
		}
		*now = now.Add(20 * time.Second)
	}
	if got, want := notes.String(), "backup: 50 %, 2MiB, 51.2KiB/s, about 40s left\n"; got != want || out.Len() != 2<<20 {
		t.Errorf("%d bytes, noted %q, want %q", out.Len(), got, want)
	}
	m, _ = meter(io.Discard, 0)
	read, err := io.ReadAll(m.Reader(strings.NewReader("abc"), "restore", 0))
	if err != nil || string(read) != "abc" {
		t.Errorf("%q, %v", read, err)
	}
}
