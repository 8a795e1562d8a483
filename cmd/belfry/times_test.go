package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
)

// An instant of a day and a time is sent as an instant, and echoed on the standard error, so that the standard output
// has only the result. RFC 3339 needs no echo.
func TestInstantsOfPeople(t *testing.T) {
	for _, tt := range []struct{ args, body, note string }{
		{"task schedule a --at 2030-12-01_09:00 --tz Europe/Berlin", `{"fire_at":"2030-12-01T08:00:00.000Z"}`,
			"at 2030-12-01 09:00:00 CET, in "},
		{"task move a --at 2030-12-01_09:00_Asia/Tokyo", `{"fire_at":"2030-12-01T00:00:00Z"}`, "at 2030-12-01 "},
		{"task patch a --at 2030-12-01_09:00 --tz UTC", `{"fire_at":"2030-12-01T09:00:00Z"}`, "at 2030-12-01 09:00:00 UTC, in "},
		{"task schedule a --at 2030-12-01T09:00:00+01:00", `{"fire_at":"2030-12-01T08:00:00.000Z"}`, ""},
		{"task schedule a --in 36h", `{"delay":"36h"}`, ""},
		{"task touch a --in 5s --no-later-than 2030-12-01_09:00 --tz UTC",
			`{"delay":"5s","no_later_than":"2030-12-01T09:00:00.000Z"}`, "no-later-than 2030-12-01 09:00:00 UTC, in "},
		{"operation move --all --to 2030-12-01_09:00 --tz UTC --yes", `{"all":true,"filter":{},"op":"move","to":"2030-12-01T09:00:00Z"}`,
			"at 2030-12-01 09:00:00 UTC, in "},
		{"schedule backfill a --from 2026-11-20_00:00 --to 2026-11-22_00:00 --tz UTC",
			`{"from":"2026-11-20T00:00:00Z","to":"2026-11-22T00:00:00Z"}`, "to 2026-11-22 00:00:00 UTC, "},
		{"schedule preview --every 1h --zone Europe/Berlin --start 2030-12-01_09:00", // in the zone of the rule
			`{"repeat":{"every":"1h","start":"2030-12-01T08:00:00Z","time_zone":"Europe/Berlin"}}`, "start 2030-12-01 09:00:00 CET, in "},
	} {
		s := serveOne(t, 200, taskJSON)
		args := words(tt.args)
		out, notes, err := ran(t, append(args, "-o", "json", "--addr", s.url)...)
		if err != nil || s.body != tt.body || !json.Valid([]byte(out)) {
			t.Errorf("belfry %s: %v, sent %s, want %s\n%s", tt.args, err, s.body, tt.body, out)
		}
		if !strings.Contains(notes, tt.note) || tt.note == "" && notes != "" {
			t.Errorf("belfry %s: noted %q, want %q", tt.args, notes, tt.note)
		}
	}
}

// Filters and ranges take an instant of people, or a duration from or before now.
func TestTimesOfFilters(t *testing.T) {
	s := serveOne(t, 200, `{"tasks":[]}`)
	_, notes, err := ran(t, "task", "list", "--due-before", "2030-12-01 09:00", "--tz", "UTC", "--addr", s.url)
	if err != nil || !strings.Contains(s.uri, "due_before=2030-12-01T09%3A00%3A00Z") ||
		!strings.Contains(notes, "due-before 2030-12-01 09:00:00 UTC, in ") {
		t.Errorf("%v, asked %s, noted %q", err, s.uri, notes)
	}
	for args, want := range map[string]string{
		"task list --due-after soon":                                        `--due-after "soon" is neither an instant`,
		"tail --since 2030-02-30_09:00":                                     "no date of the calendar",
		"key create n --role read --expires 2030-10-27_02:30_Europe/Berlin": "show twice",
	} {
		line := words(args)
		if out, code := belfry(t, line...); code != exitUsage || !strings.Contains(out, want) {
			t.Errorf("belfry %s: %d\n%s", args, code, out)
		}
	}
}

// Verbs on a real node: a schedule is patched, all weights of groups are removed, and the wheel counts the tasks that wait.
func TestFurtherVerbsOnANode(t *testing.T) {
	addr, c, _ := inNamespace(t)
	before, err := c.Wheel(t.Context(), 0)
	assert.NoError(t, err)
	for _, step := range []struct{ args, want string }{
		{"schedule put report --every 1h -q polls --note first", "note         first"},
		{"schedule patch report --note second --payload 7 --jitter 5m", "note         second"},
		{"schedule patch report --cron @daily --clear repeat.every,note --max-attempts 3", "cron         @daily"},
		{"queue patch q --fair --group-weight a=3,b=2 --group-weight c=4", "a=3, b=2, c=4"},
		{"queue patch q --group-weight b=0", "a=3, c=4"},
		{"queue patch q --group-weight= --group-weight a=1", "belfry queue set replaces them"},
		{"queue set q --group-weight= --group-weight d=5", "in turn, d=5"},
		{"queue patch q --group-weight=", "groups  in turn\n"},
		{"task schedule a --in 30m -q q", "scheduled"},
		{"task move a --at tomorrow_9:00 --tz UTC", " 09:00:00.000 UTC, in "},
		{"task move a --in 40m", "UTC, in "},
		{"node show n1", "state      up"},
		{"node show n2", "no node of the cluster has this id or name"},
		{"shards wheel -o yaml", "due_within:"},
		{"shards wheel 9", "shard"},
		{"shards activity", "SCHEDULED"},
		{"shards activity 1 --since 1m --json", `"steps":[`},
	} {
		args := words(step.args)
		out, _ := belfry(t, append(args, "--addr", addr)...)
		if !strings.Contains(out, step.want) {
			t.Errorf("belfry %s: want %q\n%s", step.args, step.want, out)
		}
	}
	await(t, "the wheel", func() bool {
		w, err := c.Wheel(t.Context(), 0)
		return err == nil && len(w.Missing) == 0 && w.DueWithin.Hour > before.DueWithin.Hour
	})
	s, err := c.GetSchedule(t.Context(), "report")
	if err != nil || s.Note != "" || s.Repeat.Every != 0 || string(s.Task.Payload) != "7" || s.Task.Queue != "polls" ||
		s.Task.Retry == nil || s.Task.Retry.MaxAttempts != 3 || s.Repeat.Jitter != 5*time.Minute {
		t.Errorf("%+v, %v", s, err)
	}
	if task, err := c.Get(t.Context(), "a"); err != nil || task.State != client.StateScheduled {
		t.Errorf("%+v, %v", task, err)
	}
}

// TestLocalTimes checks that tables show times by the clocks of the machine's zone, which they name, and that JSON has
// them in UTC.
func TestLocalTimes(t *testing.T) {
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
		cmd := exec.CommandContext(t.Context(), program(t), append(strings.Fields(args), "--addr", s.url)...)
		cmd.Env = append(cmd.Environ(), "TZ=Asia/Tokyo")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, want %q:\n%s", args, err, want, out)
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
