package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
)

const keptQueue = `{"queue":"q","target":{"url":"http://x/","headers":{"a":"b"}},"retry":{"max_attempts":3},"max_in_flight":7,
	"paused":true,"keep_done":"3d","signing":{"secrets":["sha256:01234567","sha256:89abcdef"]},
	"counts":{"scheduled":4,"ready":9,"leased":2,"oldest_overdue":"2026-11-21T10:00:00.000Z","due_1m":1}}`

func TestQueueGetAndList(t *testing.T) {
	s := serveOne(t, 200, keptQueue)
	out, code := belfry(t, "queue", "get", "q", "--addr", s.url)
	for _, want := range []string{"http://x/ (paused)", "max in flight  7", "ready          9", "sha256:01234567"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%d: no %q in\n%s", code, want, out)
		}
	}
	if out, _ := belfry(t, "queue", "get", "q", "--addr", s.url, "--json"); !strings.Contains(out, `"due_1m":1`) {
		t.Errorf("%s", out)
	}
	s = serveOne(t, 200, `{"queues":[`+keptQueue+`,{"queue":"r"}],"next_cursor":null}`)
	out, code = belfry(t, "queue", "list", "--addr", s.url)
	if code != 0 || !strings.Contains(out, "QUEUE  TO") || !strings.Contains(out, "consumers") {
		t.Errorf("%d\n%s", code, out)
	}
	if out, _ := belfry(t, "queue", "list", "--addr", s.url, "--json"); strings.Count(out, "\n") != 2 {
		t.Errorf("not a line a queue:\n%s", out)
	}
}

func TestQueueDelete(t *testing.T) {
	s := serveOne(t, 200, keptQueue)
	if out, code := belfry(t, "queue", "delete", "q", "--yes", "--addr", s.url); code != 0 || s.method != "DELETE" {
		t.Errorf("%d %s\n%s", code, s.method, out)
	}
}

// Flags that are not given leave their fields unchanged.
func TestQueueSetChangesWhatItSays(t *testing.T) {
	for args, want := range map[string]string{
		"--max-in-flight 0 --keep-dead 30d": `"target":{"url":"http://x/","headers":{"a":"b"}},"retry":{"max_attempts":3},` +
			`"paused":true,"keep_done":"3d","keep_dead":"30d","signing":{"secrets":["sha256:01234567",` +
			`"sha256:89abcdef"]}`,
		"--url http://y/ --header c:d --paused=false --max-attempts 0 --newest-secret-only": `"target":{"url":"http://y/",` +
			`"headers":{"c":"d"}},"max_in_flight":7,"paused":false,"keep_done":"3d","signing":{"secrets":["sha256:01234567"]}`,
		"--reset --max-per-second 0.5": `"max_per_second":0.5,"paused":false`,
	} {
		s := serveOne(t, 200, keptQueue)
		out, code := belfry(t, append([]string{"queue", "set", "q", "--addr", s.url}, strings.Fields(args)...)...)
		if code != 0 || s.method != "PUT" || s.body != `{"queue":"q",`+want+`}` {
			t.Errorf("%s: %d, sent %s %s\n%s", args, code, s.method, s.body, out)
		}
	}
}

func TestSecretsComeFromElsewhere(t *testing.T) {
	s := serveOne(t, 200, keptQueue)
	file := filepath.Join(t.TempDir(), "secret")
	if out, code := belfry(t, "queue", "set", "q", "--addr", s.url, "--generate-secret", file); code != 0 {
		t.Fatalf("%d\n%s", code, out)
	}
	made, err := os.ReadFile(file)
	info, statErr := os.Stat(file)
	if err != nil || statErr != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(err, statErr, info)
	}
	secret := strings.TrimSpace(string(made))
	if !regexp.MustCompile(`^whsec_[A-Za-z0-9+/]{43}=$`).MatchString(secret) ||
		!strings.Contains(s.body, `{"secrets":["`+secret+`","sha256:01234567"]}`) {
		t.Errorf("made %s, sent %s", secret, s.body)
	}
	if out, code := belfry(t, "queue", "set", "q", "--addr", s.url, "--generate-secret", file); code != exitUsage {
		t.Errorf("an old secret is written over: %d\n%s", code, out)
	}
	t.Setenv("SHOP_SECRET", "whsec_two")
	out, code := belfry(t, "queue", "set", "q", "--addr", s.url, "--secret-file", file, "--secret-env", "SHOP_SECRET")
	if code != 0 || !strings.Contains(s.body, `{"secrets":["`+secret+`","whsec_two"]}`) || strings.Contains(out, secret) {
		t.Errorf("%d, sent %s\n%s", code, s.body, out)
	}
}

const leased = `{"tasks":[{"id":"a","payload":{"n": 1},"attempt":2,"fence":9,"receipt":"r1",
	"lease_ends_at":"2026-11-21T10:00:30.000Z","state":"firing"}]}`

func TestLease(t *testing.T) {
	s := serveOne(t, 200, leased)
	out, code := belfry(t, "lease", "take", "q", "--addr", s.url, "--max", "5", "--wait", "2s", "--lease", "1m")
	if code != 0 || !strings.Contains(out, "r1") || !strings.Contains(out, `{"n": 1}`) {
		t.Errorf("%d\n%s", code, out)
	}
	if s.uri != "/v1/queues/q/lease" || s.body != `{"max":5,"wait":"2s","lease":"1m"}` {
		t.Errorf("sent %+v", s)
	}
	if out, _ := belfry(t, "lease", "take", "q", "--addr", s.url, "--json"); !strings.Contains(out, `"receipt":"r1"`) {
		t.Errorf("%s", out)
	}
	s = serveOne(t, 200, `{"tasks":[]}`)
	if out, code := belfry(t, "lease", "take", "q", "--addr", s.url, "--ack"); code != 0 || out != "no task is ready in queue q\n" {
		t.Errorf("%d %s", code, out)
	}
}

// If there is no result to print, the command prints a sentence to the standard error, since pipes read the output.
func TestNothingIsSaidBesideTheOutput(t *testing.T) {
	s := serveOne(t, 200, `{"tasks":[],"queues":[],"next_cursor":null}`)
	for args, want := range map[string]string{
		"lease take q --json": "no task is ready in queue q\n", "task list --json": "no task was found\n",
		"dead list q --json": "no dead letter was found in queue q\n", "queue list --json": "no queue has a policy or a task\n",
	} {
		root := newRoot()
		var out, beside strings.Builder
		root.SetOut(&out)
		root.SetErr(&beside)
		root.SetArgs(append(strings.Fields(args), "--addr", s.url))
		if err := root.ExecuteContext(t.Context()); err != nil || out.String() != "" || beside.String() != want {
			t.Errorf("%s: %v, prints %q, and beside it %q", args, err, out.String(), beside.String())
		}
	}
}

func TestQueuePatch(t *testing.T) {
	for args, want := range map[string]string{
		"patch q --max-in-flight 20 --keep-done 1.5d": `PATCH /v1/queues/q {"keep_done":"36h","max_in_flight":20}`,
		"patch q --paused=false --batch-max 0":        `PATCH /v1/queues/q {"batch_max":null,"paused":false}`,
		"patch q --url= --min-backoff 2s --retry-delays=": `PATCH /v1/queues/q {"retry":{"delays":null,"min_backoff":"2s"},` +
			`"target":null}`,
		"patch q --header X-Shop:1 --attempt-timeout 0s --retry-delays 4m,1h": `PATCH /v1/queues/q ` +
			`{"retry":{"delays":["4m","1h"]},"target":{"headers":{"X-Shop":"1"},"timeout":null}}`,
		"pause q":  "POST /v1/queues/q/pause ",
		"resume q": "POST /v1/queues/q/resume ",
	} {
		s := serveOne(t, 200, keptQueue)
		out, code := belfry(t, append(append([]string{"queue"}, strings.Fields(args)...), "--addr", s.url)...)
		got := s.method + " " + s.uri + " " + s.body
		if code != 0 || got != want || !strings.Contains(out, "max in flight  7") {
			t.Errorf("%s: %d, sent %s\nwant %s\n%s", args, code, got, want, out)
		}
	}
}

func TestSettle(t *testing.T) {
	s := serveOne(t, 200, `{"results":[{"receipt":"r1","id":"a","status":200},{"receipt":"r2","id":"b","status":409,
		"problem":{"status":409,"title":"The receipt's lease has ended."}}]}`)
	out, code := belfry(t, "lease", "settle", "q", "--addr", s.url, "--ack", "r1", "--nack", "r2", "--delay", "0s", "--reason", "late")
	if code != exitFailed || !strings.Contains(out, "lease has ended") {
		t.Errorf("%d\n%s", code, out)
	}
	assert.Equal(t, s.body, `{"ack":["r1"],"nack":[{"receipt":"r2","delay":"0s","reason":"late"}]}`, "sent")
	s = serveOne(t, 200, `{"results":[{"receipt":"r1","id":"a","status":200}]}`)
	if out, code := belfry(t, "lease", "ack", "q", "r1", "--addr", s.url, "--json"); code != 0 || !strings.Contains(out, `"status":200`) {
		t.Errorf("%d\n%s", code, out)
	}
}

func TestDead(t *testing.T) {
	s := serveOne(t, 200, `{"count":7}`)
	out, code := belfry(t, "dead", "replay", "q", "--yes", "--addr", s.url, "--prefix", "a", "--limit", "9")
	if code != 0 || out != "7 replayed\n" || s.method != "POST" || s.uri != "/v1/queues/q/dead/replay?limit=9&prefix=a" {
		t.Errorf("%d %s %s\n%s", code, s.method, s.uri, out)
	}
	for args, uri := range map[string]string{"a b": "?id=a&id=b", "--all": "", "--label k=v": "?label=k%3Av"} {
		out, code := belfry(t, append([]string{"dead", "drop", "q", "--yes", "--addr", s.url}, strings.Fields(args)...)...)
		if code != 0 || s.method != "DELETE" || s.uri != "/v1/queues/q/dead"+uri {
			t.Errorf("%s: %d %s %s\n%s", args, code, s.method, s.uri, out)
		}
	}
	s = serveOne(t, 200, `{"tasks":[{"id":"a","fire_at":"2000-01-01T00:00:00Z","attempts":2,"last_error":"answered 500",
		"history":[{"ended_at":"2000-01-01T00:00:01Z"},{"ended_at":"2000-01-01T00:00:09Z"}]}],"next_cursor":null}`)
	out, code = belfry(t, "dead", "list", "q", "--addr", s.url)
	if code != 0 || !strings.Contains(out, "ID  QUEUE") || !strings.Contains(out, "00:00:09") ||
		!strings.Contains(out, "answered 500") || s.uri != "/v1/tasks?limit=100&order=due&queue=q&state=dead" {
		t.Errorf("%d %s\n%s", code, s.uri, out)
	}
}

func TestScheduleWithJitter(t *testing.T) {
	s := serveOne(t, 201, taskJSON)
	out, code := belfry(t, "task", "schedule", "a", "--addr", s.url, "--delay", "1h", "--jitter", "10m", "--queue", "q")
	if code != 0 || s.body != `{"queue":"q","delay":"1h","jitter":"10m"}` {
		t.Errorf("%d, sent %s\n%s", code, s.body, out)
	}
}

func TestWindowFlag(t *testing.T) {
	for text, want := range map[string]string{
		"":            "",
		"09:00-20:00": "09:00-20:00",
		"Europe/Berlin 09:00-12:00 MON-SAT 14:00-18:00 calendar=holidays": "MON-SAT 09:00-12:00 14:00-18:00 Europe/Berlin calendar=holidays",
	} {
		w, err := readWindow(text)
		if err != nil || window(w) != want {
			t.Errorf("%q: %+v, %v", text, w, err)
		}
	}
	for _, wrong := range []string{"MON TUE 09:00-20:00", "Europe/Berlin Asia/Tokyo 09:00-20:00"} {
		w, err := readWindow(wrong)
		assert.Error(t, err, "%q: %+v", wrong, w)
	}
}

func TestGroupFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "2 of each under way, in turn, acme=3"},
		{[]string{"--group-in-flight", "0", "--group-per-second", "0.5"}, "0.5 a second of each, in turn, acme=3"},
		{[]string{"--group-in-flight", "0", "--fifo"}, "in order, in turn, acme=3"},
		{[]string{"--group-weight", "acme=0,b=4"}, "2 of each under way, in turn, b=4"},
		{[]string{"--fair=false", "--group-weight", "acme=0"}, "2 of each under way"},
	} {
		var f groupFlags
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.addFlags(flags)
		assert.NoError(t, flags.Parse(c.args))
		q := &client.Queue{GroupInFlight: 2, Fair: true, GroupWeights: map[string]int{"acme": 3}}
		if err := f.apply(flags.Changed, q); err != nil || groups(q) != c.want {
			t.Errorf("%q: %q, %v, want %q", c.args, groups(q), err, c.want)
		}
	}
	f := groupFlags{weights: map[string]string{"acme": "many"}}
	err := f.patch(func(string) bool { return false }, &client.QueuePatch{})
	assert.Error(t, err, "a weight that is no number is taken")
}
