package httpapi

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/quota"
)

// testLimits refuses by kind of call, and records the calls.
type testLimits struct {
	refuse  map[string]error
	checked []string
	lines   int
	most    int64 // bytes of a payload
	inside  int   // consumers
}

func (l *testLimits) note(kind, namespace, key string) error {
	l.checked = append(l.checked, kind+" "+namespace+" "+key)
	return l.refuse[kind]
}

func (l *testLimits) Call(_ context.Context, namespace, key string) error {
	return l.note("call", namespace, key)
}

func (l *testLimits) Schedule(_ context.Context, namespace, key string) error {
	return l.note("schedule", namespace, key)
}

func (l *testLimits) ScheduleLines(_ context.Context, _, _ string, n int) error {
	l.lines += n
	return nil
}

func (l *testLimits) Payload(_, _ string, bytes int64) error {
	return quota.Limits{MaxPayload: l.most}.CheckPayload(quota.Subject{Namespace: "n"}, bytes)
}

func (l *testLimits) Queue(_ context.Context, namespace, queue string) error {
	return l.note("queue", namespace, queue)
}

func (l *testLimits) Policy(_ context.Context, namespace, queue string) error {
	return l.note("policy", namespace, queue)
}

func (l *testLimits) Consumer(_ context.Context, namespace, key string) (func(), error) {
	l.inside++
	return func() { l.inside-- }, l.note("consumer", namespace, key)
}

func (l *testLimits) Use(context.Context, string) (view.Usage, error) {
	return view.Usage{Consumers: 3, SchedulesPerSecond: 4.5, CallsPerSecond: 6}, l.refuse["use"]
}

func limited(t *testing.T) (*harness, *testLimits) {
	l := &testLimits{refuse: map[string]error{}, most: 100}
	return newHarness(t, func(c *Config) { c.Limits = l }), l
}

const smallTask = `{"delay":"1h","payload":"x"}`

// TestRatesRefuse checks that a call beyond a rate is answered with the quota, before its body is read.
func TestRatesRefuse(t *testing.T) {
	for _, kind := range []string{"call", "schedule"} {
		h, l := limited(t)
		l.refuse[kind] = &quota.Exceeded{
			Quota: quota.SchedulesPerSecond, Limit: 2.5, Used: 2.5, RetryAfter: 1200 * time.Millisecond,
		}
		a := h.call("PUT", "/v1/tasks/a", "{no JSON")
		p := a.mustProblem(t, 429, "")
		if p["quota"] != "schedules_per_second" || p["limit"] != "2.50" || p["used"] != "2.50" ||
			p["retry_after"] != 2.0 || a.Header.Get("Retry-After") != "2" {
			t.Errorf("%s: %s", kind, a.text)
		}
		if h.call("GET", "/v1/tasks/a", "").StatusCode == 429 && kind == "schedule" {
			t.Error("a read counts as a schedule")
		}
		if h.call("GET", "/v1/cluster", "").StatusCode == 429 {
			t.Error("a local call about the whole cluster has a quota")
		}
	}
}

// TestLimitsKnowTheCaller checks that calls count for the namespace of their path.
func TestLimitsKnowTheCaller(t *testing.T) {
	h, l := limited(t)
	h.call("PUT", "/v1/tasks/a", smallTask).mustStatus(t, 201)
	assert.Equal(t, strings.Join(l.checked, ", "), "call default , schedule default , queue default default", "asked for")
}

// TestRatesOfOtherCalls checks that calls about no namespace count for the caller's key, and for its own namespace.
func TestRatesOfOtherCalls(t *testing.T) {
	l := &testLimits{refuse: map[string]error{}}
	h := newHarness(t, withAccess, func(c *Config) { c.Limits = l })
	for _, c := range []struct{ caller, path, counted string }{
		{"read@a", "/v1/whoami", "a"}, {"read@a", "/v1/operations", "a"}, {"read@a", "/v1/namespaces", "a"},
		{"read@a", "/v1/map", "a"}, {"admin@a", "/v1/keys", "a"}, {"read@a read@b", "/v1/whoami", ""},
		{"admin@*", "/v1/keys", ""}, {"admin@*", "/v1/cluster", ""}, {"admin@*", "/v1/audit", ""},
		{"admin@*", "/metrics", ""},
	} {
		l.checked, l.refuse = nil, map[string]error{}
		a := h.call("GET", c.path, "", bearer(c.caller)...)
		assert.Equal(t, a.StatusCode, 200, "%s: %s", c.path, a.text)
		want := []string{"call " + c.counted + " " + c.caller}
		assert.EqualSlices(t, l.checked, want, "%s of %s asks for", c.path, c.caller)
		l.refuse["call"] = &quota.Exceeded{Quota: quota.CallsPerSecond, Limit: 1, Used: 1, RetryAfter: time.Second}
		h.call("GET", c.path, "", bearer(c.caller)...).mustProblem(t, 429, "")
	}
	h.call("GET", "/v1/doctor", "", bearer("admin@*")...).mustStatus(t, 200)
	h.call("GET", "/healthz", "").mustStatus(t, 200)
	h.call("GET", "/readyz", "").mustStatus(t, 200)
}

// TestPayloadsAreLimited checks the limit of payloads, by the length of a body and by the payload itself.
func TestPayloadsAreLimited(t *testing.T) {
	h, l := limited(t)
	large := `{"delay":"1h","payload":"` + strings.Repeat("x", 101) + `"}`
	for method, path := range map[string]string{"PUT": "/v1/tasks/a", "POST": "/v1/tasks"} {
		p := h.call(method, path, large).mustProblem(t, 403, "")
		if p["quota"] != "max_payload" || p["limit"] != "100" || p["retry_after"] != nil {
			t.Errorf("%v", p)
		}
		h.call(method, path, smallTask).mustStatus(t, 201)
	}
	before := len(l.checked)
	h.call("PUT", "/v1/tasks/a", "{no JSON"+strings.Repeat(" ", 2*bodyBeside)).mustProblem(t, 403, "")
	assert.Equal(t, len(l.checked)-before, 1, "questions for a body that is too long")
	lines := `{"op":"schedule","id":"a","delay":"1h","payload":"x"}` + "\n" +
		`{"op":"schedule","id":"b",` + large[1:] + "\n" + `{"op":"cancel","id":"a"}` + "\n"
	a := h.call("POST", "/v1/batch", lines, "Content-Type", "application/x-ndjson")
	if got := strings.Split(a.text, "\n"); len(got) != 4 || !strings.Contains(got[1], "quota-exceeded") || l.lines != 1 {
		t.Errorf("%s, %d lines counted", a.text, l.lines)
	}
}

// TestQueuesAreLimited checks that a queue is admitted before a task or a policy makes it, and that no call but these
// asks for it.
func TestQueuesAreLimited(t *testing.T) {
	h, l := limited(t)
	h.call("PUT", "/v1/tasks/old", `{"delay":"1h"}`).mustStatus(t, 201)
	full := &quota.Exceeded{Quota: quota.MaxQueues, Limit: 2, Used: 2}
	l.refuse["queue"], l.refuse["policy"] = full, full
	for _, call := range [][3]string{
		{"PUT", "/v1/tasks/a", `{"delay":"1h","queue":"q"}`}, {"POST", "/v1/tasks", `{"delay":"1h","queue":"q"}`},
		{"POST", "/v1/tasks/a/touch", `{"or_schedule":{"delay":"1h","queue":"q"}}`},
		{"PUT", "/v1/queues/q", `{}`}, {"PATCH", "/v1/queues/q", `{"max_in_flight":3}`}, {"POST", "/v1/queues/q/pause", ``},
	} {
		p := h.call(call[0], call[1], call[2]).mustProblem(t, 403, "")
		if p["quota"] != "max_queues" || p["retry_after"] != nil {
			t.Errorf("%v: %v", call, p)
		}
		if last := l.checked[len(l.checked)-1]; !strings.HasSuffix(last, " default q") {
			t.Errorf("%v asked for %q", call, last)
		}
	}
	for _, call := range [][3]string{
		{"GET", "/v1/tasks/old", ""}, {"PATCH", "/v1/tasks/old", `{"delay":"2h"}`}, {"POST", "/v1/tasks/old/fire", ""},
		{"DELETE", "/v1/tasks/old", ""},
	} {
		h.call(call[0], call[1], call[2]).mustStatus(t, 200)
	}
}

// TestTouchesCountAsSchedules checks that only a touch that may make a task counts in the rate of schedules.
func TestTouchesCountAsSchedules(t *testing.T) {
	h, l := limited(t)
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`).mustStatus(t, 201)
	l.refuse["schedule"] = &quota.Exceeded{Quota: quota.SchedulesPerSecond, Limit: 1, Used: 1, RetryAfter: time.Second}
	h.call("POST", "/v1/tasks/a/touch", `{"delay":"1h"}`).mustStatus(t, 200)
	h.call("POST", "/v1/tasks/b/touch", `{"or_schedule":{"delay":"1h"}}`).mustProblem(t, 429, "")
}

// TestConsumersAreLimited checks that a lease and a stream are admitted as consumers, and leave when they end.
func TestConsumersAreLimited(t *testing.T) {
	h, l := limited(t)
	h.call("POST", "/v1/queues/q/lease", `{}`).mustStatus(t, 200)
	if l.inside != 0 || l.checked[len(l.checked)-1] != "consumer default " {
		t.Errorf("%d consumers after the lease, asked %q", l.inside, l.checked)
	}
	l.refuse["consumer"] = &quota.Exceeded{Quota: quota.MaxConsumers, Limit: 1, Used: 1, RetryAfter: time.Second}
	for _, path := range []string{"/v1/queues/q/lease", "/v1/queues/q/stream"} {
		p := h.call("POST", path, "").mustProblem(t, 429, "")
		if p["quota"] != "max_consumers" || p["retry_after"] != 1.0 {
			t.Errorf("%s: %v", path, p)
		}
	}
}

// TestUseIsShown checks that the use of a namespace has the parts that no shard counts.
func TestUseIsShown(t *testing.T) {
	h, l := limited(t)
	used := h.call("GET", "/v1/namespaces/default", "").mustStatus(t, 200)["used"].(map[string]any)
	if used["consumers"] != 3.0 || used["schedules_per_second"] != 4.5 || used["calls_per_second"] != 6.0 {
		t.Errorf("%v", used)
	}
	l.refuse["use"] = task.ErrNotProposed
	h.call("GET", "/v1/namespaces/default", "").mustProblem(t, 503, "")
}

// TestRefusalsAreCounted checks the metric of refusals, by quota, for calls and for lines of a batch.
func TestRefusalsAreCounted(t *testing.T) {
	h, l := limited(t)
	l.refuse["queue"] = &quota.Exceeded{Quota: quota.MaxQueues, Limit: 2, Used: 2}
	h.call("PUT", "/v1/tasks/a", smallTask).mustProblem(t, 403, "")
	lines := strings.Repeat(`{"op":"schedule","id":"a","delay":"1h"}`+"\n", 2)
	h.call("POST", "/v1/batch", lines, "Content-Type", "application/x-ndjson")
	for q := quota.MaxPending; q <= quota.MaxQueues; q++ {
		want := 0.0
		if q == quota.MaxQueues {
			want = 3
		}
		if got := testutil.ToFloat64(h.server.metrics.overQuota.WithLabelValues(q.String())); got != want {
			t.Errorf("%v: %v refusals, not %v", q, got, want)
		}
	}
}
