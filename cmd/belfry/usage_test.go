package main

import (
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/internal/assert"
)

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
