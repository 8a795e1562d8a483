package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/internal/assert"
)

var update = flag.Bool("update", false, "write testdata/mistakes.txt anew")

// TestWarningsOfLonelyTasks checks that a task without a receiver is stored with a warning if its queue has none and no
// consumer, and that other tasks have no warning.
func TestWarningsOfLonelyTasks(t *testing.T) {
	addr, conn, _ := inNamespace(t)
	t.Setenv("BELFRY_ADDR", addr)
	for _, q := range []client.Queue{
		{Name: "orders", Target: &client.Target{URL: "http://127.0.0.1:1/"}, Paused: true}, {Name: "pulled"},
	} {
		_, err := conn.PutQueue(t.Context(), q)
		assert.NoError(t, err)
	}
	const waits = "note: no --url is given, and queue "
	for args, want := range map[string]string{
		"task schedule a --in 1h":                          waits + "default has no receiver and no consumer with a lease:",
		"task schedule a -q ordres --in 1h":                "consumer with a lease (did you mean orders?): the task waits",
		"schedule put a --every 1h -q pulled":              waits + "pulled has no receiver",
		"task schedule a -q orders --in 1h":                "",
		"task schedule a --in 1h --url http://127.0.0.1:1": "",
	} {
		out, code := belfry(t, strings.Fields(args)...)
		if code != 0 || want == "" && strings.Contains(out, "note:") || !strings.Contains(out, want) {
			t.Errorf("%s: %d, want %q:\n%s", args, code, want, out)
		}
	}
	if _, err := conn.Schedule(t.Context(), client.Task{ID: "b", Queue: "pulled"}); err != nil {
		t.Fatal(err)
	}
	leased, err := conn.Lease(t.Context(), "pulled", client.Demand{Max: 1, Wait: time.Minute})
	if err != nil || len(leased) != 1 {
		t.Fatal(leased, err)
	}
	out, code := belfry(t, "task", "schedule", "a", "-q", "pulled", "--in", "1h")
	if code != 0 || strings.Contains(out, "note:") {
		t.Errorf("beside a consumer: %d\n%s", code, out)
	}
}

// TestMistakes checks that a mistake of a user is answered in the user's words: the flag or the argument with its value,
// the values that it takes, and the nearest right word. testdata/mistakes.txt has the command lines with their answers.
func TestMistakes(t *testing.T) {
	addr, conn, namespace := inNamespace(t)
	t.Setenv("BELFRY_ADDR", addr)
	if _, err := conn.PauseQueue(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	_, err := conn.Schedule(t.Context(), client.Task{ID: "waits", Queue: "orders-with-tasks", Delay: time.Hour})
	assert.NoError(t, err)
	const path = "testdata/mistakes.txt"
	script, err := os.ReadFile(path)
	assert.NoError(t, err)
	var found strings.Builder
	mistakes := strings.SplitAfter(strings.TrimSuffix(string(script), "\n"), "\n\n")
	for _, mistake := range mistakes {
		line, _, _ := strings.Cut(mistake, "\n")
		args := commandLines(t, strings.ReplaceAll(strings.TrimPrefix(line, "$ "), "@", addr))[0]
		out, code := belfry(t, args...)
		answer := strings.ReplaceAll(strings.TrimSpace(out), namespace, "shop")
		got := fmt.Sprintf("%s\n%s\nexit %d\n\n", line, answer, code)
		if found.WriteString(got); strings.TrimSpace(got) != strings.TrimSpace(mistake) && !*update {
			t.Errorf("found\n%swant\n%s", got, mistake)
		}
		for _, internal := range []string{"strconv", "time:", "parsing", "arg(s)", " /v1/", "time_zone", "fire_at", "target.url"} {
			if strings.Contains(answer, internal) {
				t.Errorf("%s\nanswers %q:\n%s", line, internal, answer)
			}
		}
	}
	if *update {
		assert.NoError(t, os.WriteFile(path, []byte(found.String()), 0o644))
	}
	if len(mistakes) < 50 {
		t.Errorf("only %d mistakes", len(mistakes))
	}
}

// If no node answers, the message has a remedy and leaves out the steps of the failed dial.
func TestNoNodeAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err)
	addr := l.Addr().String()
	assert.NoError(t, l.Close())
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
	assert.Equal(t, cli.Explain(newRoot(), errors.New("x")), "x")
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
