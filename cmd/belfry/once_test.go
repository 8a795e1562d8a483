package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
	webhook "github.com/belfryhq/belfry/deploy/receiver"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// arrivals holds the webhook-ids that arrived for each task.
type arrivals struct {
	mu  sync.Mutex
	ids map[string][]string
}

func (a *arrivals) take(arrived webhook.Arrival) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ids[arrived.TaskID] = append(a.ids[arrived.TaskID], arrived.WebhookID)
	return http.StatusOK
}

func (a *arrivals) webhookIDs(id string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ids[id]
}

// existing is a problem about a task that exists.
type existing struct {
	Type string
	Task client.Task
}

// put schedules a task by a plain HTTP call, as the README shows it, with pairs of headers.
func put(t *testing.T, node, id, body string, header ...string) (status int, problem existing) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, node+"/v1/tasks/"+id, strings.NewReader(body))
	assert.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	for pair := range slices.Chunk(header, 2) {
		req.Header.Set(pair[0], pair[1])
	}
	status, answer := exchange(t, req)
	if status >= 400 {
		assert.NoError(t, json.Unmarshal([]byte(answer), &problem), "%d %s", status, answer)
	}
	return status, problem
}

// putOnce schedules a task unless it exists.
func putOnce(t *testing.T, node, id, body string) (status int, problem existing) {
	t.Helper()
	return put(t, node, id, body, "If-None-Match", "*")
}

// A caller makes the same call three times, the third after the delivery, through three real nodes. With the condition
// that the README advises there is one delivery, and each repeat is answered with the existing task. Without the
// condition there are two deliveries.
func TestScheduleOnce(t *testing.T) {
	gated.Need(t, gated.Real)
	t.Parallel()
	arrived := arrivals{ids: map[string][]string{}}
	hook := httptest.NewServer(webhook.Handler(arrived.take))
	defer hook.Close()
	nodes := localCluster(t, local.Config{}).URLs()
	c := dial(t, nodes[0])
	body := `{"delay": "1s", "payload": {"order": 1042}, "target": {"url": "` + hook.URL + `"}}`

	if status, _ := putOnce(t, nodes[0], "once", body); status != http.StatusCreated {
		t.Fatalf("the first call: %d", status)
	}
	status, problem := putOnce(t, nodes[1], "once", body)
	if status != http.StatusPreconditionFailed || problem.Task.ID != "once" || problem.Task.State == "" {
		t.Errorf("a repeat before the delivery: %d %+v", status, problem)
	}
	delivered := awaitState(t, c, "once", client.StateDelivered)
	status, problem = putOnce(t, nodes[2], "once", body)
	if status != http.StatusPreconditionFailed || !strings.HasSuffix(problem.Type, "precondition-failed") ||
		problem.Task.State != client.StateDelivered || problem.Task.Revision != delivered.Revision {
		t.Errorf("a repeat after the delivery: %d %+v", status, problem)
	}
	out, code := belfry(t, "task", "schedule", "once", "--if-absent", "--delay", "1s", "--url", hook.URL, "--addr", nodes[1])
	if code != 0 || !strings.HasPrefix(out, "task once is there already (delivered): nothing was changed\n") {
		t.Errorf("the command: %d\n%s", code, out)
	}

	for range 2 {
		status, _ := put(t, nodes[1], "again", body)
		assert.MustEqual(t, status, http.StatusCreated, "a plain call")
		awaitState(t, c, "again", client.StateDelivered)
	}
	if ids := arrived.webhookIDs("again"); len(ids) != 2 || ids[0] == ids[1] {
		t.Errorf("a plain call that is repeated after the delivery is delivered as %v", ids)
	}
	now, err := c.Get(t.Context(), "once")
	if err != nil || now.Revision != delivered.Revision || len(arrived.webhookIDs("once")) != 1 {
		t.Errorf("it was delivered as %v, and is %+v (%v)", arrived.webhookIDs("once"), now, err)
	}
}
