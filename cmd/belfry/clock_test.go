package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestLocalTimes checks that tables show times by the clocks of the machine's zone, which they name, and that JSON has
// them in UTC.
func TestLocalTimes(t *testing.T) {
	zone, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	time.Local = zone
	defer func() { time.Local = time.UTC }()
	task := strings.ReplaceAll(taskJSON, "2000-01-01T00:00:00.000Z", "2000-01-01T00:00:00.250Z")
	for args, want := range map[string]string{
		"task get a":        "fire at   2000-01-01 09:00:00.250 JST, ",
		"task get a --json": `"fire_at":"2000-01-01T00:00:00.250Z"`,
		"task list":         "  2000-01-01 09:00:00 JST, ",
	} {
		answer := task
		if args == "task list" {
			answer = `{"tasks":[` + task + `]}`
		}
		s := serveOne(t, 200, answer)
		out, code := belfry(t, append(strings.Fields(args), "--addr", s.url)...)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: %d, want %q:\n%s", args, code, want, out)
		}
	}
}

// TestClockOfTheNode checks that times count from the clock of a node that is ahead, as one of belfry dev is.
func TestClockOfTheNode(t *testing.T) {
	const ahead = 48 * time.Hour
	var query url.Values
	due := time.Now().Add(ahead + 60*24*time.Hour + 10*time.Minute).UTC().Format("2006-01-02T15:04:05.000Z")
	task := strings.ReplaceAll(taskJSON, "2000-01-01T00:00:00.000Z", due)
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Belfry-Clock", time.Now().Add(ahead).UTC().Format(time.RFC3339Nano))
		switch {
		case r.URL.Path != "/v1/tasks":
			_, _ = io.WriteString(w, task)
		default:
			query = r.URL.Query()
			_, _ = io.WriteString(w, `{"tasks":[`+task+`]}`)
		}
	}))
	defer node.Close()
	if out, code := belfry(t, "task", "get", "a", "--addr", node.URL); code != 0 || !strings.Contains(out, ", in 60d\n") {
		t.Errorf("%d\n%s", code, out)
	}
	out, code := belfry(t, "task", "list", "--due-before", "10d", "--addr", node.URL)
	before, err := time.Parse(time.RFC3339, query.Get("due_before"))
	within := time.Until(before).Round(time.Hour)
	if err != nil || code != 0 || within != 12*24*time.Hour || !strings.Contains(out, ", in 60d") {
		t.Errorf("%d, due before %v, %v\n%s", code, before, err, out)
	}
	past := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	out, code = belfry(t, "task", "schedule", "a", "--at", past, "--url", "http://x/", "--addr", node.URL)
	if code != 0 || !strings.Contains(out, "--at is in the past: due at once\n") {
		t.Errorf("%d\n%s", code, out)
	}
}
