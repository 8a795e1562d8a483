package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
)

// mcpSession is the session of an agent's program with the tools, over a real node.
type mcpSession struct {
	t *testing.T
	s *mcp.ClientSession
}

func newMCPSession(t *testing.T, c *client.Client, budget int) *mcpSession {
	t.Helper()
	a := &agent{client: c, now: time.Now, budget: budget, maxDelay: 48 * time.Hour}
	near, far := mcp.NewInMemoryTransports()
	server, err := a.server().Connect(t.Context(), near, nil)
	assert.NoError(t, err)
	program := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := program.Connect(t.Context(), far, nil)
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
		assert.NoError(t, server.Wait())
	})
	return &mcpSession{t, s}
}

// call calls a tool, and returns the text of its answer.
func (m *mcpSession) call(tool, arguments string) (text string, failed bool) {
	m.t.Helper()
	r, err := m.s.CallTool(m.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
	assert.NoError(m.t, err)
	for _, part := range r.Content {
		text += part.(*mcp.TextContent).Text
	}
	return text, r.IsError
}

// must returns the answer to a call that succeeds.
func (m *mcpSession) must(tool, arguments string) map[string]any {
	m.t.Helper()
	text, failed := m.call(tool, arguments)
	var answer map[string]any
	if err := json.Unmarshal([]byte(text), &answer); err != nil || failed {
		m.t.Fatalf("%s %s: %s", tool, arguments, text)
	}
	return answer
}

// refused checks that a call fails with a text.
func (m *mcpSession) refused(tool, arguments, want string) {
	m.t.Helper()
	if text, failed := m.call(tool, arguments); !failed || !strings.Contains(text, want) {
		m.t.Errorf("%s %s: failed %v, want %s\n%s", tool, arguments, failed, want, text)
	}
}

// TestMCPTools plays the life of tasks through the tools on a real node.
func TestMCPTools(t *testing.T) {
	_, c, _ := inNamespace(t)
	m := newMCPSession(t, c, 9)
	made := m.must("schedule", `{"id":"a","delay":"1h","queue":"q","payload":"{\"n\":12345678901234567890}","labels":{"k":"v"}}`)
	kept, err := c.Get(t.Context(), "a")
	assert.NoError(t, err)
	task := made["task"].(map[string]any)
	if task["revision"] != float64(kept.Revision) || task["state"] != "scheduled" || task["due"] != stamp(kept.FireAt) ||
		made["budget_left"] != float64(8) || string(kept.Payload) != `{"n":12345678901234567890}` || kept.Labels["k"] != "v" {
		t.Errorf("answered %v, stored %+v", made, kept)
	}
	m.refused("schedule", `{"id":"a","delay":"2h"}`, `"task":{"id":"a","revision":`) // with the task that is there
	m.must("schedule", `{"id":"a","delay":"2h","queue":"q","replace":true}`)
	assert.Equal(t, m.must("wait", `{"id":"a","timeout":"0s"}`)["ended"], any(false), "ended")
	listed := m.must("list", `{"prefix":"a"}`)
	if tasks := listed["tasks"].([]any); len(tasks) != 1 || listed["more"] != false {
		t.Errorf("listed %v", listed)
	}
	for range 2 { // the receipt of a cancel is final
		gone := m.must("cancel", `{"id":"a"}`)
		if gone["outcome"] != "cancelled" || gone["never_fired"] != true || gone["already_fired"] != false {
			t.Errorf("cancel: %v", gone)
		}
	}
	assert.Equal(t, m.must("get", `{"id":"a"}`)["state"], any("cancelled"), "state")
	assert.Equal(t, m.must("wait", `{"id":"a"}`)["ended"], any(true), "ended")
	m.refused("get", `{"id":"none"}`, `"status":404`)
	m.refused("cancel", `{"id":"none"}`, `"status":404`)
}

// TestMCPCancelAfterFired cancels a delivered task, and one whose attempt runs.
func TestMCPCancelAfterFired(t *testing.T) {
	_, c, _ := inNamespace(t)
	m := newMCPSession(t, c, 9)
	for _, id := range []string{"done", "runs"} {
		m.must("schedule", `{"id":"`+id+`","delay":"0s","queue":"pulled"}`)
		leased, err := c.Lease(t.Context(), "pulled", client.Demand{Max: 1, Wait: 20 * time.Second, Lease: time.Minute})
		assert.NoError(t, err)
		assert.Equal(t, len(leased), 1, "leased tasks")
		if id == "done" {
			settled := c.Settle(t.Context(), "pulled", client.Settlement{Ack: []string{leased[0].Receipt}})
			assert.NoError(t, settled[0].Err)
			assert.Equal(t, m.must("wait", `{"id":"done"}`)["ended"], any(true), "ended")
		}
	}
	for id, want := range map[string]string{"done": "already_fired", "runs": "stopped"} {
		gone := m.must("cancel", `{"id":"`+id+`"}`)
		if gone["outcome"] != want || gone["never_fired"] != false || gone["already_fired"] != (id == "done") {
			t.Errorf("cancel of %s: %v", id, gone)
		}
	}
}

// TestMCPBudget exhausts the budget of a session. Calls that changed nothing do not count.
func TestMCPBudget(t *testing.T) {
	_, c, _ := inNamespace(t)
	m := newMCPSession(t, c, 2)
	m.refused("schedule", `{"id":"a","delay":"49h"}`, `"type":"delay-beyond-budget"`)
	m.refused("schedule", `{"id":"a","fire_at":"2100-01-01T00:00:00Z"}`, `"limit":"48h"`)
	m.must("schedule", `{"id":"a","delay":"48h"}`)
	m.refused("schedule", `{"id":"a","delay":"1h"}`, `"status":412`)
	m.refused("schedule", `{"id":"b","delay":"1h","labels":{"`+strings.Repeat("x", 64)+`":""}}`, `"status":400`)
	assert.Equal(t, m.must("schedule", `{"delay":"1h"}`)["budget_left"], any(float64(0)), "budget left")
	m.refused("schedule", `{"id":"c","delay":"1h"}`, `"type":"budget-exhausted"`)
	_, err := c.Get(t.Context(), "c")
	assert.ErrorIs(t, err, client.ErrNotFound, "a task beyond the budget")
	m.must("cancel", `{"id":"a"}`) // gives nothing back
	m.refused("schedule", `{"id":"a","delay":"1h","replace":true}`, `"type":"budget-exhausted"`)
}

// TestMCPBadInput names the field of bad input.
func TestMCPBadInput(t *testing.T) {
	_, c, _ := inNamespace(t)
	m := newMCPSession(t, c, 9)
	for _, row := range [][3]string{
		{"schedule", `{"id":"a"}`, `"field":"delay"`},
		{"schedule", `{"id":"a","delay":"1h","fire_at":"2026-01-01T00:00:00Z"}`, `"field":"delay"`},
		{"schedule", `{"id":"a","delay":"soon"}`, `"field":"delay"`},
		{"schedule", `{"id":"a","delay":"-1h"}`, `"status":400`},
		{"schedule", `{"id":"a","fire_at":"tomorrow"}`, `"field":"fire_at"`},
		{"schedule", `{"id":"a b","delay":"1h"}`, `"field":"id"`},
		{"schedule", `{"id":"a","delay":"1h","payload":"{"}`, `"field":"payload"`},
		{"schedule", `{"id":"a","delay":"1h","url":"ftp://x/"}`, `"field":"target.url"`},
		{"schedule", `{"id":"a","delay":"1h","color":"red"}`, `color`},
		{"schedule", `{"id":7,"delay":"1h"}`, `id`},
		{"list", `{"limit":101}`, `"field":"limit"`},
		{"list", `{"states":["red"]}`, `"field":"state"`},
		{"get", `{}`, `id`},
		{"wait", `{"id":"a","timeout":"11m"}`, `"field":"timeout"`},
		{"wait", `{"id":"a","timeout":"long"}`, `"field":"timeout"`},
	} {
		m.refused(row[0], row[1], row[2])
	}
	for _, err := range c.List(t.Context(), client.Filter{}) {
		t.Errorf("a task was made, or %v", err)
	}
	out, code := belfry(t, "mcp", "--budget", "-1")
	if code != exitUsage || !strings.Contains(out, "--budget is negative") {
		t.Errorf("%d %s", code, out)
	}
}
