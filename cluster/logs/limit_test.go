package logs

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFloodIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, out := capture()
		m := Memberlist(Limited(l))
		flood := func() {
			for i := range 20_000 {
				m.Printf("[ERR] memberlist: msg type (%d) not supported from=10.0.%d.%d:%d", i%256, i/256, i%256, i)
			}
		}
		flood()
		m.Printf("[WARN] memberlist: Refuting a suspect message (from: n2)")
		if got := strings.Count(out.String(), "\n"); got != 2 || !strings.Contains(out.String(), "Refuting") {
			t.Errorf("%d lines for two kinds:\n%.1000s", got, out.String())
		}
		out.Reset()
		time.Sleep(quiet)
		flood()
		if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "suppressed=19999") {
			t.Errorf("ten seconds later:\n%.1000s", got)
		}
	})
}

// Strangers choose some words of some messages. They cannot fill the log or the memory with new kinds.
func TestKindsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, out := capture()
		limited := Limited(l).With("from", "a stranger").WithGroup("said")
		word := func(i int) string { return strings.Repeat(string(rune('a'+i%26)), 1+i/26) }
		for i := range 10_000 {
			limited.Warn("said " + word(i))
		}
		handler := limited.Handler().(*limiter)
		if lines, kinds := strings.Count(out.String(), "\n"), len(handler.floods.kinds); lines > maxKinds+1 || kinds > maxKinds+1 {
			t.Errorf("%d lines, %d kinds", lines, kinds)
		}
		time.Sleep(quiet)
		out.Reset()
		limited.Error("another one")
		limited.Info("said nothing new", slog.Int("i", 1))
		if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `from="a stranger" said.i=1`) {
			t.Errorf("later: %s", got)
		}
	})
}

func TestDebuggingIsNotLimited(t *testing.T) {
	l, out := capture()
	limited := Limited(l)
	for i := range 3 {
		limited.Debug("dropped a connection", "from", fmt.Sprint("peer", i))
	}
	if got := strings.Count(out.String(), "\n"); got != 3 {
		t.Errorf("%d lines:\n%s", got, out.String())
	}
}
