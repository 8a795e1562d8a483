package main

import (
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
)

// listNouns are the nouns with a list, as an error names them.
const listNouns = "calendar list or context list or dead list or key list or namespace list or node list or operation list or queue list or " +
	"schedule list or shards list or task list"

// An error names a mistake in the caller's words: the flag, its value, the values it takes, and the nearest right
// word.
func TestMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"shedule a": `unknown command "shedule" for "belfry" (did you mean schedule?)`,
		"lst":       "(did you mean " + listNouns + "?)",
		"lisen":     `(did you mean listen?)`,
		"tsk list":  `unknown command "tsk" for "belfry" (did you mean task?)`,
		"task shedule a": `unknown command "shedule" for "belfry task" (did you mean schedule?); see ` +
			`belfry task --help`,
		"queue pasue q": `unknown command "pasue" for "belfry queue" (did you mean pause?); see ` +
			`belfry queue --help`,
		"dead lsit q":                                     "(did you mean list?)",
		"task get a --jsn":                                "unknown flag --jsn (did you mean --json?); see belfry task get --help",
		"queue patch q --max-in-fligt 3":                  "unknown flag --max-in-fligt (did you mean --max-in-flight?)",
		"task schedule a --xyzzy":                         "unknown flag --xyzzy; see belfry task schedule --help",
		"lease take q --max many":                         `--max "many" is not a whole number; see belfry lease take --help`,
		"queue set q --max-per-second fast":               `--max-per-second "fast" is not a number`,
		"task get a --json=perhaps":                       `--json "perhaps" is not true or false`,
		"task get a --timeout soon":                       `--timeout: "soon" must be a duration: numbers with units`,
		"task schedule a --delay soon":                    `--in: "soon" must be a duration: numbers with units`,
		"task schedule a --in soon":                       `--in: "soon" must be a duration: numbers with units`,
		"task schedule a --retry-delays 1m,soon":          `--retry-delays: "soon" must be a duration: numbers with units`,
		"task schedule a --at tomorrow":                   `--at: "tomorrow" has no time of day like 9:00`,
		"task schedule a --at 9:00 --tz Mars/North":       `the time zone "Mars/North" is unknown`,
		"task move a --in 1h --at 9:00":                   "give one of --in and --at",
		"task move a":                                     "give one of --in and --at",
		"task get a -o xml":                               `--output: "xml" is none of table, wide, json and yaml`,
		"task get a --context no/name":                    `there is no context "no/name"`,
		"operation move --all --by 1h --in 1h":            "give one of --by, --at and --in",
		"operation move --all --in -1h":                   "--in is negative",
		"queue patch q --group-weight acme":               `--group-weight: "acme" is not name=weight`,
		"schedule patch a":                                "give what to change",
		"shards wheel x":                                  `"x" is no number of a shard`,
		"task touch a --no-later-than soon":               `--no-later-than "soon" is neither an instant, like`,
		"task list --label tenant":                        `--label "tenant" is not name=value`,
		"task schedule a --header tenant":                 `--header "tenant" is not name: value`,
		"task patch a":                                    "give what to change",
		"task patch a --delay 0s":                         "belfry task fire makes a task due now",
		"task patch a --payload x --content-type y":       "is not JSON",
		"queue patch q":                                   "give what to change",
		"schedule preview --every soon":                   `--every: "soon" must be a duration: numbers with units`,
		"schedule preview --start tomorrow":               `--start: "tomorrow" has no time of day like 9:00`,
		"schedule put a":                                  "give the rule: either --every or one --cron or more",
		"schedule put a --every 1h --cron @daily":         "give the rule: either --every or one --cron or more",
		"schedule put a --every 1h --jitter soon":         `--jitter: "soon" must be a duration: numbers with units`,
		"schedule put a --every 1h --misfire-window soon": `--misfire-window: "soon" must be a duration`,
		"schedule put a --every 1h --delay 1h":            "unknown flag --delay",
		"schedule put a --every 1h --header X:1":          "--header and --attempt-timeout need --url",
		"schedule backfill a --from 2026-11-20T00:00:00Z": "give both --from and --to",
		"schedule backfill a --from soon --to now":        `--from: "soon" has no time of day`,
		"schedule list --limit -1":                        "--limit is negative",
		"schedule list --label tenant":                    `--label "tenant" is not name=value`,
		"queue patch q --keep-done soon":                  `--keep-done: "soon" must be a duration: numbers with units`,
		"task batch /does/not/exist":                      "/does/not/exist",
		"node list -N orders":                             "no effect on belfry node list, which is not about one namespace",
		"backup --to - --namespace orders":                "--namespace has no effect on belfry backup",
		"key rotate abcdefghij -N orders":                 "--namespace has no effect on belfry key rotate",
		"namespace delete orders -N orders":               "--namespace has no effect on belfry namespace delete",
	} {
		out, code := belfry(t, strings.Fields(args)...)
		if code != exitUsage || !strings.Contains(out, want) {
			t.Errorf("belfry %s: %d, want %q:\n%s", args, code, want, out)
		}
		for _, internal := range []string{"strconv", "time:", "parsing", "arg(s)"} {
			if strings.Contains(out, internal) {
				t.Errorf("belfry %s: says %q:\n%s", args, internal, out)
			}
		}
	}
}

// The error for a verb without its noun lists the nouns that have the verb.
func TestVerbWithoutNoun(t *testing.T) {
	for args, want := range map[string]string{
		"get a": "calendar get or queue get or task get", "cancel a": "operation cancel or task cancel",
		"list": listNouns, "touch a": "task touch", "fire a": "operation fire or schedule fire or task fire",
		"patch a": "operation patch or queue patch or schedule patch or task patch", "batch": "task batch", "settle q": "lease settle", "ack q r": "lease ack",
	} {
		out, code := belfry(t, strings.Fields(args)...)
		if code != exitUsage || !strings.Contains(out, " (did you mean "+want+"?); see belfry --help") {
			t.Errorf("belfry %s: %d, want %q:\n%s", args, code, want, out)
		}
	}
}

// If no node answers, the message has a remedy and leaves out the steps of the failed dial.
func TestNoNodeAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { // the command tries for a second of simulated time
		for _, args := range []string{"task get a", "task batch"} {
			root := newRoot()
			root.SetIn(strings.NewReader(`{"op":"fire","id":"a"}`))
			root.SetArgs(append(strings.Fields(args), "--addr", addr, "--timeout", "PT1S"))
			cmd, err := root.ExecuteContextC(t.Context())
			if err == nil {
				t.Fatal("a node answered")
			}
			want := "no node answers at " + addr +
				": connection refused; start one with `belfry local`, or name another with --addr"
			if got := cli.Explain(cmd, err); got != want || exitCode(cmd, err) != exitFailed {
				t.Errorf("%s: %d %q, want %q", args, exitCode(cmd, err), got, want)
			}
		}
	})
	if got := cli.Explain(newRoot(), errors.New("x")); got != "x" {
		t.Errorf("%q", got)
	}
}

// TestTimesOfSeveralWords checks that surplus arguments beside a time name the form of times.
func TestTimesOfSeveralWords(t *testing.T) {
	for args, want := range map[string]string{
		"task schedule a --in 10 minutes":    "accepts at most 1 arg(s), received 2; --in takes one word, like --in 10m; see",
		"task schedule a --at tomorrow 9:00": `needs quotes, like --at "tomorrow 9:00"; see`,
		"task schedule a b":                  "accepts at most 1 arg(s), received 2; see",
	} {
		if out, code := belfry(t, strings.Fields(args)...); code != exitUsage || !strings.Contains(out, want) {
			t.Errorf("%s: %d %s", args, code, out)
		}
	}
}

// TestPastTimesAreNamed checks that an instant in the past is sent, and said to mean now.
func TestPastTimesAreNamed(t *testing.T) {
	for _, args := range []string{"task schedule a --at 2020-01-01T00:00:00Z", "task move a --at 2020-01-01T00:00:00Z"} {
		s := serveOne(t, 200, taskJSON)
		out, code := belfry(t, append(strings.Fields(args), "--addr", s.url)...)
		if code != 0 || !strings.Contains(out, "--at is in the past: due at once\n") || s.method == "" {
			t.Errorf("%s: %d %s", args, code, out)
		}
	}
	s := serveOne(t, 200, taskJSON)
	if out, _ := belfry(t, "task", "move", "a", "--at", "2099-01-01 09:00", "--addr", s.url); strings.Contains(out, "past") {
		t.Error(out)
	}
}

// TestPauseOfNoQueue checks that a pause, which would make a queue, refuses a name that no queue has.
func TestPauseOfNoQueue(t *testing.T) {
	for _, verb := range []string{"pause", "resume"} {
		s := serveOne(t, 404, `{"type":"urn:belfry:problem:queue-not-found","title":"There is no such queue.","status":404}`)
		out, code := belfry(t, "queue", verb, "nosuch", "--addr", s.url)
		if code != exitNotFound || s.method != "GET" || !strings.Contains(out, "belfry queue set nosuch --paused") {
			t.Errorf("%s: %d after %s: %s", verb, code, s.method, out)
		}
	}
}

// TestDeadLettersOfAllQueues checks that a list of dead letters has their queues and their errors.
func TestDeadLettersOfAllQueues(t *testing.T) {
	letter := strings.Replace(taskJSON, `"last_error":""`, `"last_error":"answered 500"`, 1)
	s := serveOne(t, 200, `{"tasks":[`+letter+`]}`)
	out, code := belfry(t, "dead", "list", "--addr", s.url)
	if code != 0 || !strings.Contains(out, "QUEUE") || !strings.Contains(out, "default") ||
		!strings.Contains(out, "answered 500") || strings.Contains(s.uri, "queue=") {
		t.Errorf("%d %s\n%s", code, s.uri, out)
	}
	s = serveOne(t, 200, `{"tasks":[]}`)
	if out, code := belfry(t, "dead", "list", "q", "--addr", s.url); code != 0 || !strings.Contains(out, "in queue q") {
		t.Errorf("%d %s", code, out)
	}
}
