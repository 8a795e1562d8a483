package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/belfryhq/belfry/cmd/belfry/internal/capacity"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/internal/assert"
)

// served answers every request with one answer and keeps the last request.
type served struct {
	url, method, uri, body, key string
	read                        string // URI of the last read of occurrences
}

func serveOne(t *testing.T, status int, answer string) *served {
	t.Helper()
	s := &served{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.method, s.uri, s.body, s.key = r.Method, r.RequestURI, string(body), r.Header.Get("Idempotency-Key")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// printed runs a command line and returns its output.
func printed(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, _, err := executed(t, args...)
	return out, err
}

// executed runs a command line and returns its output and its command.
func executed(t *testing.T, args ...string) (string, *cobra.Command, error) {
	t.Helper()
	root := newRoot()
	var out strings.Builder
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetIn(strings.NewReader("from stdin"))
	root.SetArgs(append([]string{}, args...)) // nil would stand for those of the test program
	cmd, err := root.ExecuteContextC(t.Context())
	return out.String(), cmd, err
}

// belfry runs a command line as main does.
func belfry(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	out, cmd, err := executed(t, args...)
	if err != nil && !errors.Is(err, errSaid) {
		out += cli.Explain(cmd, err)
	}
	return out, exitCode(cmd, err)
}

const taskJSON = `{"id":"a","queue":"default","fire_at":"2000-01-01T00:00:00.000Z","payload":{"n": 1},
	"target":{"url":"http://x/"},"state":"scheduled","attempts":0,"next_attempt_at":null,"last_error":"",
	"revision":8,"shard":3,"labels":{"k":"v"},"created_at":"2000-01-01T00:00:00.000Z"}`

func TestSchedule(t *testing.T) {
	s := serveOne(t, 201, taskJSON)
	out, code := belfry(t, "task", "schedule", "a", "--addr", s.url, "--delay", "1d", "--payload", `{"n": 1}`, "--url", "http://x/",
		"--header", "X-Shop: 1", "--label", "k=v", "--max-attempts", "3", "--key", "k1")
	if code != 0 || !strings.Contains(out, "state     scheduled") || !strings.Contains(out, `{"n": 1}`) {
		t.Errorf("%d\n%s", code, out)
	}
	want := `{"delay":"24h","payload":{"n": 1},"target":{"url":"http://x/","headers":{"X-Shop":"1"}},` +
		`"retry":{"max_attempts":3},"labels":{"k":"v"}}`
	if s.method != "PUT" || s.uri != "/v1/tasks/a" || s.body != want || s.key != "k1" {
		t.Errorf("sent %+v", s)
	}
}

// With --if-absent, an existing task is a success. Without the flag, a condition that does not hold is a failure.
func TestScheduleIfAbsent(t *testing.T) {
	s := serveOne(t, 412, `{"type":"urn:belfry:problem:precondition-failed","title":"The condition does not hold.","status":412,"task":`+taskJSON+`}`)
	out, code := belfry(t, "task", "schedule", "a", "--addr", s.url, "--delay", "1h", "--if-absent")
	if code != 0 || !strings.HasPrefix(out, "task a is there already (scheduled): nothing was changed\n") ||
		!strings.Contains(out, "revision  8") {
		t.Errorf("%d\n%s", code, out)
	}
	if out, code := belfry(t, "task", "schedule", "a", "--addr", s.url, "--delay", "1h"); code != exitFailed {
		t.Errorf("%d\n%s", code, out)
	}
	s = serveOne(t, 412, `{"type":"urn:belfry:problem:precondition-failed","title":"The condition does not hold.","status":412}`)
	if out, code := belfry(t, "task", "schedule", "a", "--addr", s.url, "--delay", "1h", "--if-absent"); code != exitFailed {
		t.Errorf("without a task: %d\n%s", code, out)
	}
}

func TestScheduleBytesFromStdin(t *testing.T) {
	s := serveOne(t, 201, taskJSON)
	out, code := belfry(t, "task", "schedule", "--addr", s.url, "--payload-file", "-", "--content-type", "text/plain")
	assert.Equal(t, code, 0, "%s", out)
	if s.method != "POST" || !strings.Contains(s.body, `"payload_base64":"ZnJvbSBzdGRpbg=="`) {
		t.Errorf("sent %+v", s)
	}
}

func TestJSONOutput(t *testing.T) {
	s := serveOne(t, 200, taskJSON)
	out, code := belfry(t, "task", "get", "a", "--addr", s.url, "--json", "--stale")
	if code != 0 || !strings.Contains(out, `"revision":8`) || s.uri != "/v1/tasks/a?consistency=stale" {
		t.Errorf("%d %s\n%s", code, s.uri, out)
	}
}

const (
	emptyCluster = `{"cluster_id":"c1","nodes":[],"shards":[]}`
	settleAnswer = `{"results":[{"receipt":"r1","id":"a","status":200},{"receipt":"r2","id":"b","status":200}]}`
)

// calls are commands with an answer of a node, and the number of values in it.
var calls = []struct {
	args, answer string
	values       int
}{
	{"task get a", taskJSON, 1},
	{"task schedule a", taskJSON, 1},
	{"task patch a --delay 1h", taskJSON, 1},
	{"task touch a", taskJSON, 1},
	{"task fire a", taskJSON, 1},
	{"task cancel a", `{"outcome":"stopped"}`, 1},
	{"task list", `{"tasks":[` + taskJSON + "," + taskJSON + `]}`, 2},
	{"task batch", `{"id":"a","status":200}` + "\n", 1},
	{"queue get q", keptQueue, 1},
	{"queue set q", keptQueue, 1},
	{"queue pause q", keptQueue, 1},
	{"queue delete q --yes", keptQueue, 1},
	{"queue list", `{"queues":[` + keptQueue + `,{"queue":"r"}]}`, 2},
	{"lease take q", leased, 1},
	{"lease settle q --ack r1,r2", settleAnswer, 2},
	{"lease ack q r1 r2", settleAnswer, 2},
	{"dead list q", `{"tasks":[` + taskJSON + `]}`, 1},
	{"dead replay q --yes", `{"count":7}`, 1},
	{"dead drop q --all --yes", `{"count":7}`, 1},
	{"cluster status", emptyCluster, 1},
	{"node list", `{"nodes":[{"id":"n1"},{"id":"n2"}]}`, 2},
	{"node show n1", `{"nodes":[{"id":"n1"},{"id":"n2"}]}`, 1},
	{"operation list", `{"operations":[{"id":"op-1"},{"id":"op-2"}]}`, 2},
	{"operation cancel --all --dry-run", `{"matched":7,"complete":true}`, 1},
	{"calendar list", `{"calendars":[{"calendar":"a"},{"calendar":"b"}]}`, 2},
	{"shards wheel", `{"waiting":3}`, 1},
	{"shards activity", `{"step_ms":5000}`, 1},
}

// With --json every command prints one JSON value a line and no other text.
func TestJSONIsAValueALine(t *testing.T) {
	for _, tt := range calls {
		s := serveOne(t, 200, tt.answer)
		out, code := belfry(t, append(strings.Fields(tt.args), "--json", "--addr", s.url)...)
		assert.Equal(t, code, 0, "%s: %s", tt.args, out)
		checkLines(t, tt.args, out, tt.values)
		s = serveOne(t, 200, tt.answer)
		documents, code := belfry(t, append(strings.Fields(tt.args), "-o", "yaml", "--addr", s.url)...)
		assert.Equal(t, code, 0, "%s -o yaml: %s", tt.args, documents)
		checkDocuments(t, tt.args, documents, out)
	}
	for args, lines := range map[string]int{"plan": 1, "plan --costs": len(capacity.Costs{})} {
		out, _ := belfry(t, append(strings.Fields(args), "--json")...)
		checkLines(t, args, out, lines)
	}
}

// checkDocuments checks that YAML documents have the values of the lines of JSON.
func checkDocuments(t *testing.T, args, documents, lines string) {
	t.Helper()
	texts := yaml.NewDecoder(strings.NewReader(documents))
	for line := range strings.Lines(lines) {
		var value any
		if err := texts.Decode(&value); err != nil {
			t.Errorf("%s -o yaml: %v\n%s", args, err, documents)
			return
		}
		again, err := json.Marshal(value)
		var got, want any
		assert.NoError(t, errors.Join(err, json.Unmarshal(again, &got), json.Unmarshal([]byte(line), &want)))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: YAML %v, JSON %v", args, got, want)
		}
	}
	assert.ErrorIs(t, texts.Decode(new(any)), io.EOF, "%s -o yaml: more documents than lines of JSON", args)
}

func checkLines(t *testing.T, args, out string, want int) {
	t.Helper()
	n := 0
	for line := range strings.Lines(out) {
		if n++; !json.Valid([]byte(line)) || line[0] != '{' {
			t.Errorf("%s --json: a line that is no object: %s", args, line)
		}
	}
	if n != want {
		t.Errorf("%s --json: %d lines, want %d:\n%s", args, n, want, out)
	}
}

func TestCancelSaysWhatItMeans(t *testing.T) {
	s := serveOne(t, 200, `{"outcome":"stopped"}`)
	out, code := belfry(t, "task", "cancel", "a", "--addr", s.url)
	if code != 0 || !strings.HasPrefix(out, "stopped: an attempt was begun") || s.method != "DELETE" {
		t.Errorf("%d\n%s", code, out)
	}
	if out, _ := belfry(t, "task", "cancel", "a", "--addr", s.url, "--json"); !strings.Contains(out, `"outcome":"stopped"`) {
		t.Errorf("%s", out)
	}
}

func TestTouch(t *testing.T) {
	s := serveOne(t, 200, taskJSON)
	out, code := belfry(t, "task", "touch", "a", "--addr", s.url, "--delay", "5s", "--no-later-than", "1h")
	assert.Equal(t, code, 0, "%s", out)
	assert.Equal(t, s.body, `{"delay":"5s","no_later_than":"1h"}`, "sent")
	out, code = belfry(t, "task", "touch", "a", "--addr", s.url, "--append", "1", "--append", `{"b": 2}`)
	assert.Equal(t, code, 0, "%s", out)
	assert.Equal(t, s.body, `{"append":[1,{"b": 2}]}`, "sent")
	out, code = belfry(t, "task", "touch", "a", "--addr", s.url, "--payload", `[3]`)
	assert.Equal(t, code, 0, "%s", out)
	assert.Equal(t, s.body, `{"payload":[3]}`, "sent")
}

// A delay has the same flags in all commands and takes all forms of the HTTP interface.
func TestDelays(t *testing.T) {
	for _, args := range []string{
		"task schedule a --delay 1.5d", "task schedule a -d 36h", "task touch a --delay P1DT12H", "task touch a -d 1d12h",
		"task patch a --delay 36h", "task patch a -d 1.5d", "task schedule a --in 1.5d", "task touch a --in 36h",
		"task patch a --in P1DT12H", "task move a --in 36h", "task move a --delay 36h",
	} {
		s := serveOne(t, 200, taskJSON)
		out, code := belfry(t, append(strings.Fields(args), "--addr", s.url)...)
		if code != 0 || s.body != `{"delay":"36h"}` {
			t.Errorf("%s: %d, sent %s\n%s", args, code, s.body, out)
		}
	}
}

func TestFire(t *testing.T) {
	s := serveOne(t, 200, taskJSON)
	out, code := belfry(t, "task", "fire", "a", "--addr", s.url, "--key", "k1")
	if code != 0 || s.method+s.uri != "POST/v1/tasks/a/fire" || s.key != "k1" || !strings.Contains(out, "revision  8") {
		t.Errorf("%d, sent %+v\n%s", code, s, out)
	}
}

func TestPatch(t *testing.T) {
	for args, want := range map[string]string{
		`--payload {"n":2} --label tenant: --label a=b`: `{"labels":{"a":"b","tenant":null},"payload":{"n":2}}`,
		"--at 2030-01-01T00:00:00+01:00 --clear target": `{"fire_at":"2029-12-31T23:00:00Z","target":null}`,
		"--attempt-timeout PT5S --max-attempts 3":       `{"retry":{"max_attempts":3},"target":{"timeout":"5s"}}`,
		"--clear retry.max_attempts,target.timeout":     `{"retry":{"max_attempts":null},"target":{"timeout":null}}`,
	} {
		s := serveOne(t, 200, taskJSON)
		out, code := belfry(t, append([]string{"task", "patch", "a", "--addr", s.url}, strings.Fields(args)...)...)
		if code != 0 || s.method+s.uri != "PATCH/v1/tasks/a" || s.body != want {
			t.Errorf("%s: %d, sent %s %s\nwant %s\n%s", args, code, s.method, s.body, want, out)
		}
	}
}

// Answers are printed unchanged, and the exit status reports whether all lines succeeded.
func TestBatch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ops.ndjson")
	assert.NoError(t, os.WriteFile(file, []byte(`{"op":"fire","id":"a"}`), 0o600))
	const done, refused = `{"id":"a","status":200}` + "\n", `{"id":"b","status":404,"problem":{}}` + "\n"
	for _, tt := range []struct {
		args, answer, out string
		code              int
	}{
		{file, done, done, 0},
		{"-", done + done, done + done, 0},
		{"", done + refused, done + refused + "1 of 2 operations were refused\n", exitFailed},
		{"", "", "there was no operation to carry out", exitUsage},
		{"", done + "{", done + "it is unknown whether the call happened: the answer to the batch broke off", exitUnknown},
		{"", done + "{\n", done + "line 2 of the answer cannot be read", exitFailed},
	} {
		s := serveOne(t, 200, tt.answer)
		out, code := belfry(t, append([]string{"task", "batch", "--addr", s.url}, strings.Fields(tt.args)...)...)
		if code != tt.code || !strings.HasPrefix(out, strings.TrimSuffix(tt.out, "\n")) || s.uri != "/v1/batch" {
			t.Errorf("%q: %d, want %d\n%s", tt.args, code, tt.code, out)
		}
		want := "from stdin"
		if tt.args == file {
			want = `{"op":"fire","id":"a"}`
		}
		assert.Equal(t, s.body, want, "%q: sent", tt.args)
	}
}

func TestList(t *testing.T) {
	s := serveOne(t, 200, `{"tasks":[`+taskJSON+`],"next_cursor":null}`)
	out, code := belfry(t, "task", "list", "--addr", s.url, "--state", "dead,ready", "--label", "k=v", "--limit", "7")
	if code != 0 || !strings.Contains(out, "ID  STATE") || !strings.Contains(out, "http://x/") {
		t.Errorf("%d\n%s", code, out)
	}
	assert.Equal(t, s.uri, "/v1/tasks?label=k%3Av&limit=7&state=dead&state=ready", "asked")
	s = serveOne(t, 200, `{"tasks":[{"id":"a","state":"retrying","fire_at":"2000-01-01T00:00:00Z",
		"next_attempt_at":"2000-01-01T09:09:09Z","attempts":2,"last_error":"answered 500"}],"next_cursor":null}`)
	out, code = belfry(t, "task", "list", "--addr", s.url, "--order", "due", "--due-before", "2027-01-01T00:00:00Z")
	if code != 0 || !strings.Contains(out, "09:09") || !strings.Contains(out, "answered 500") || s.uri != "/v1/tasks?due_before=2027-01-01T00%3A00%3A00Z&limit=100&order=due" {
		t.Errorf("%d asked %s\n%s", code, s.uri, out)
	}
	if out, _ := belfry(t, "task", "list", "--addr", s.url, "--json"); strings.Count(out, "\n") != 1 {
		t.Errorf("not a line a task:\n%s", out)
	}
}

func TestClusterTable(t *testing.T) {
	s := serveOne(t, 200, `{"cluster_id":"c1","nodes":[{"id":"n1","name":"node-1","http_addr":"h:1","http_url":"https://h:1","zone":"eu-1","weight":20,"alive":true}],
		"control":{"leader":"n1","term":5,"voters":["n2","n1"]},"slot_moves":[{"from":1,"to":0,"slots":9,"step":"seal"}],
		"shards":[{"id":0,"leader":"n1","term":2,"replicas":[{"node":"n1","applied":9,"state":"leader","voter":true}],"tasks":4,
			"target":["n1"],"step":"remove"},
		{"id":1,"leader":"","term":2,"replicas":[],"tasks":0}]}`)
	out, code := belfry(t, "cluster", "status", "--addr", s.url)
	for _, want := range []string{"cluster c1", "node-1  true   -      eu-1  0         1      +0.0 ms  https://h:1",
		"0      node-1  4      0       node-1", "1      none    0      0",
		"control group: leader node-1, term 5, voters n2 node-1", "0B     remove  -", "seal  0"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%d: no %q in\n%s", code, want, out)
		}
	}
}

func TestExitCodes(t *testing.T) {
	missing := serveOne(t, 404, `{"type":"urn:belfry:problem:task-not-found","title":"Not found"}`)
	unknown := serveOne(t, 500, `{"title":"Internal error","committed":"unknown"}`)
	file := filepath.Join(t.TempDir(), "belfry.yaml")
	assert.NoError(t, os.WriteFile(file, []byte("adr: x\n"), 0o600))
	tests := []struct {
		args string
		code int
		says string
	}{
		{"task get a --addr " + missing.url, exitNotFound, "not found"},
		{"task cancel a --addr " + unknown.url, exitUnknown, "Internal error"},
		{"task get", exitUsage, "ID is missing; see belfry task get --help"},
		{"task get a --nonsense", exitUsage, "nonsense"},
		{"nonsense", exitUsage, `unknown command "nonsense" for "belfry"; see belfry --help`},
		{"task get a --config " + file, exitUsage, `unknown setting "adr"`},
		{"task get a --config /does/not/exist", exitUsage, "/does/not/exist"},
		{"task schedule a --delay 1s --at 2026-11-21T10:00:00Z", exitUsage, "--in and --at"},
		{"task schedule a --delay soon", exitUsage, "--in"},
		{"task schedule a --payload x", exitUsage, "not JSON"},
		{"task schedule a --header x", exitUsage, "--header"},
		{"task touch a --no-later-than soon", exitUsage, "soon"},
		{"task list --due-before soon", exitUsage, "soon"},
		{"task get a --addr ftp://x", exitUsage, "ftp"},
		{"queue", 0, "Usage"},
		{"queue boil", exitUsage, "unknown command"},
		{"queue get", exitUsage, "see belfry queue get --help"},
		{"queue get q --addr " + missing.url, exitNotFound, `there is no queue "q"`},
		{"queue set q --reset --keep-done soon", exitUsage, "--keep-done"},
		{"queue set q --reset --header x:y", exitUsage, "--url"},
		{"queue set q --reset --secret-file /does/not/exist", exitUsage, "/does/not/exist"},
		{"queue set q --reset --secret-env BELFRY_NO_SUCH", exitUsage, "BELFRY_NO_SUCH"},
		{"lease take q --wait soon", exitUsage, "--wait"},
		{"lease settle q", exitUsage, "--nack"},
		{"lease settle q --nack r --delay soon", exitUsage, "--in"},
		{"lease ack q", exitUsage, "RECEIPT is missing"},
		{"dead drop q", exitUsage, "--all"},
		{"dead list q --due-before soon", exitUsage, "soon"},
		{"task schedule a --jitter soon", exitUsage, "--jitter"},
		{"listen --fail -1", exitFailed, "-1"},
		{"version", 0, "belfry "},
		{"", 0, "Usage"},
	}
	for _, tt := range tests {
		out, code := belfry(t, strings.Fields(tt.args)...)
		if code != tt.code || !strings.Contains(out, tt.says) {
			t.Errorf("belfry %s: %d, want %d and %q\n%s", tt.args, code, tt.code, tt.says, out)
		}
	}
}
