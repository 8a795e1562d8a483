package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
)

// belfry audit shows the changes that were made on a real node, and goes on with new ones.
func TestAuditOnANode(t *testing.T) {
	addr, c := onNode(t)
	queue := unique("audited")
	run := func(ctx context.Context, args ...string) (string, error) {
		root, out := newRoot(), &strings.Builder{}
		root.SetOut(out)
		root.SetErr(out)
		root.SetArgs(append(args, "--addr", addr))
		err := root.ExecuteContext(ctx)
		return out.String(), err
	}
	if _, err := c.PauseQueue(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	text, err := run(t.Context(), "audit")
	if err != nil || !strings.Contains(text, "200 POST /v1/queues/{queue}/pause namespace=default queue="+queue+
		" by local from 127.0.0.1\n") {
		t.Errorf("%v\n%s", err, text)
	}
	text, err = run(t.Context(), "audit", "--json", "--since", "1h")
	if err != nil || strings.Count(text, `"object":{"namespace":"default","queue":"`+queue+`"}`) != 1 {
		t.Errorf("%v\n%s", err, text)
	}
	if text, err = run(t.Context(), "audit", "--since", "0s"); err != nil || text != "" {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err = run(t.Context(), "audit", "--since", "yesterday"); err == nil ||
		!strings.Contains(err.Error(), "--since") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines := &lineWriter{with: queue, lines: make(chan string, 10)}
	followed := make(chan error, 1)
	go func() {
		root := newRoot()
		root.SetOut(lines)
		root.SetArgs([]string{"audit", "--follow", "--addr", addr})
		followed <- root.ExecuteContext(ctx)
	}()
	for _, want := range []string{"/pause", "/resume"} {
		assert.Contains(t, <-lines.lines, want)
		_, err := c.ResumeQueue(t.Context(), queue)
		assert.NoError(t, err)
	}
	cancel()
	assert.Equal(t, <-followed, nil)
}

// lineWriter passes each write with a text on.
type lineWriter struct {
	with  string
	lines chan string
}

func (w *lineWriter) Write(p []byte) (int, error) {
	if line := string(p); strings.Contains(line, w.with) {
		w.lines <- line
	}
	return len(p), nil
}

// The line of a record tells its outcome where the status does not, and the numbers of a count and of a backup.
func TestLinesOfRecords(t *testing.T) {
	at := time.Date(2026, 11, 21, 3, 12, 9, 0, time.UTC)
	for _, c := range []struct {
		record client.AuditRecord
		want   string
	}{
		{client.AuditRecord{Outcome: "begun"}, "n1 - GET /v1/backup by an unknown caller begun"},
		{client.AuditRecord{Status: 200, Outcome: "done", Bytes: 7}, "n1 200 GET /v1/backup by an unknown caller (7 bytes)"},
		{client.AuditRecord{Status: 200, Outcome: "failed"}, "n1 200 GET /v1/backup by an unknown caller failed"},
		{client.AuditRecord{Status: 504, Problem: "outcome-unknown", Outcome: "unknown"},
			"n1 504 GET /v1/backup by an unknown caller refused: outcome-unknown unknown"},
		{client.AuditRecord{Status: 401, From: "2001:db8::/64", Count: 3, First: at},
			"n1 401 GET /v1/backup by an unknown caller from 2001:db8::/64 (3 times since 03:12:09)"},
	} {
		c.record.Time, c.record.Node, c.record.Method, c.record.Route = at, "n1", "GET", "/v1/backup"
		if got := lineOf(c.record); got != "2026-11-21 03:12:09.000 UTC "+c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
