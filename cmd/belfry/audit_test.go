package main

import (
	"context"
	"strings"
	"testing"
)

// belfry audit shows the changes that were made on a real node, and goes on with new ones.
func TestAuditOnANode(t *testing.T) {
	addr, c := running(t, "--shards", "4")
	run := func(ctx context.Context, args ...string) (string, error) {
		root, out := newRoot(), &strings.Builder{}
		root.SetOut(out)
		root.SetErr(out)
		root.SetArgs(append(args, "--addr", addr))
		err := root.ExecuteContext(ctx)
		return out.String(), err
	}
	if _, err := c.PauseQueue(t.Context(), "mails"); err != nil {
		t.Fatal(err)
	}
	text, err := run(t.Context(), "audit")
	if err != nil || !strings.Contains(text, "200 POST /v1/queues/{queue}/pause namespace=default queue=mails by local from "+
		"127.0.0.1\n") {
		t.Errorf("%v\n%s", err, text)
	}
	text, err = run(t.Context(), "audit", "--json", "--since", "1h")
	if err != nil || strings.Count(text, "\n") != 1 || !strings.Contains(text, `"object":{"namespace":"default","queue":"mails"}`) {
		t.Errorf("%v\n%s", err, text)
	}
	if text, err = run(t.Context(), "audit", "--since", "0s"); err != nil || text != "" {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err = run(t.Context(), "audit", "--since", "yesterday"); err == nil || !strings.Contains(err.Error(), "--since") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines := &lineWriter{lines: make(chan string, 10)}
	followed := make(chan error, 1)
	go func() {
		root := newRoot()
		root.SetOut(lines)
		root.SetArgs([]string{"audit", "--follow", "--addr", addr})
		followed <- root.ExecuteContext(ctx)
	}()
	for _, want := range []string{"/pause", "/resume"} {
		if line := <-lines.lines; !strings.Contains(line, want) {
			t.Errorf("%s, want %s", line, want)
		}
		if _, err := c.ResumeQueue(t.Context(), "mails"); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-followed; err != nil {
		t.Error(err)
	}
}

// lineWriter passes each write on.
type lineWriter struct{ lines chan string }

func (w *lineWriter) Write(p []byte) (int, error) {
	w.lines <- string(p)
	return len(p), nil
}
