package raftlog

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

func TestLevelsAndArguments(t *testing.T) {
	var out bytes.Buffer
	base := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
	l := New(base).Named("net").With("peer", "b")
	l.Info("not shown")
	l.Warn("shown", "servers", hclog.Fmt("%d of %s", 3, "all"))
	l.StandardLogger(nil).Print("from the standard library")
	got := out.String()
	if strings.Contains(got, "not shown") || !strings.Contains(got, `servers="3 of all"`) ||
		!strings.Contains(got, "peer=b") || !strings.Contains(got, "from the standard library") {
		t.Error(got)
	}
	if l.GetLevel() != hclog.Warn || l.IsInfo() || !l.IsError() || l.Name() != "raft.net" {
		t.Errorf("level %v, name %q", l.GetLevel(), l.Name())
	}
}

// TestRepeatsAreCounted checks that a dead peer is logged now and then, with the number of repeats, and each peer by
// itself.
func TestRepeatsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := New(slog.New(slog.NewTextHandler(&out, nil)))
		for range 5 {
			l.Error("failed to heartbeat to", "peer", "b", "error", "refused")
			l.Error("failed to heartbeat to", "peer", "c", "error", "refused")
		}
		if got := strings.Count(out.String(), "\n"); got != 2 {
			t.Errorf("%d lines for two peers:\n%s", got, &out)
		}
		<-time.After(quiet)
		l.Error("failed to heartbeat to", "peer", "b", "error", "refused")
		if !strings.Contains(out.String(), "peer=b error=refused not_shown=4") {
			t.Errorf("how often it was left out is not told:\n%s", &out)
		}
	})
}

func TestOrdinaryRecordsAreInformation(t *testing.T) {
	var out bytes.Buffer
	for _, c := range []struct {
		level string
		log   func(hclog.Logger)
	}{
		{"INFO", func(l hclog.Logger) { l.Warn("heartbeat timeout reached, starting election", "last-leader-id", "") }},
		{"INFO", func(l hclog.Logger) { l.Error("failed to heartbeat to", "peer", "b", "error", io.EOF) }},
		{"INFO", func(l hclog.Logger) { l.Warn("failed to get previous log", "error", raft.ErrLogNotFound) }},
		{"WARN", func(l hclog.Logger) { l.Warn("failed to get previous log", "error", io.ErrUnexpectedEOF) }},
		{"INFO", func(l hclog.Logger) { l.Error("failed to decode incoming command", "error", raft.ErrTransportShutdown) }},
		{"WARN", func(l hclog.Logger) { l.Error("failed to take snapshot", "error", io.EOF) }},
	} {
		out.Reset()
		c.log(New(slog.New(slog.NewTextHandler(&out, nil))))
		if !strings.Contains(out.String(), "level="+c.level) {
			t.Errorf("want %s: %s", c.level, out.String())
		}
	}
}
