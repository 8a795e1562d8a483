package stand

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/internal/assert"
)

// Alarms reports each line of a node once, whenever the node logs it.
func TestAlarms(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "belfry.log")
	f, err := os.Create(path)
	assert.NoError(t, err)
	defer func() {
		assert.Equal(t, f.Close(), nil)
	}()
	logs := newLogs([]local.Node{{Name: "node-1", Dir: dir}})
	for i, round := range []struct {
		text   string
		errors int
		worse  string // empty: no entry
		cut    int
	}{
		{"level=INFO a\nlevel=ERROR b\nlevel=ER", 1, "", 0},
		{"ROR c\nlevel=INFO d\n", 1, "", 0},
		{"", 0, "", 0},
		{"==================\nWARNING: DATA RACE\nRead at 0x\n", 0, "node-1: WARNING: DATA RACE\nRead at 0x", 0},
		{"level=INFO panic: no\nhttp: panic serving 1.2.3.4: x\n", 0, "node-1: http: panic serving 1.2.3.4: x", 0},
		{"level=ERROR msg=\"this node cannot go on\" err=\"the log contradicted the leader's snapshot and\"\n", 1, "", 1},
		{"level=ERROR msg=\"the group cannot go on\" err=\"the log contradicted the leader's snapshot\"\n", 1, "", 0},
		{"panic: at last\n", 0, "node-1: panic: at last", 0},
	} {
		logs.Begin()
		if _, err := f.WriteString(round.text); err != nil {
			t.Fatal(err)
		}
		got, err := logs.Alarms()
		if err != nil || got.Errors != round.errors || strings.Join(got.Worse, "; ") != round.worse ||
			got.Cut["node-1"] != round.cut {
			t.Errorf("reading %d: %+v, %v", i, got, err)
		}
	}
	if got := logs.Tail("node-1"); !strings.HasSuffix(got, "panic: at last") {
		t.Error(got)
	}
	if got := logs.Tail("node-2"); got == "" {
		t.Error("Tail of a missing log is empty")
	}
}

// Save copies the lines since the last judged round, with those between the two rounds.
func TestLogsAreSaved(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "belfry.log")
	text := ""
	write := func(more string) {
		t.Helper()
		text += more
		assert.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	logs := newLogs([]local.Node{{Name: "node-1", Dir: dir}})
	save := func(want string) {
		t.Helper()
		assert.NoError(t, logs.Save(to))
		got, err := os.ReadFile(filepath.Join(to, "node-1.log"))
		if err != nil || string(got) != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	logs.Begin()
	write("one\n")
	save("one\n")
	_, err := logs.Alarms()
	assert.NoError(t, err)
	write("between\n")
	logs.Begin()
	write("two\n")
	save("between\ntwo\n")
}
