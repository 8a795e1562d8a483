package httpapi

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/quota"
)

// testLimits refuses by kind of call, and records the calls.
type testLimits struct {
	refuse map[string]error
	asked  []string
	lines  int
	most   int64 // bytes of a payload
}

func (l *testLimits) note(what, namespace, key string) error {
	l.asked = append(l.asked, what+" "+namespace+" "+key)
	return l.refuse[what]
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
	return quota.Limits{MaxPayload: uint64(l.most)}.CheckPayload(quota.Subject{Namespace: "n"}, bytes)
}

func limited(t *testing.T) (*harness, *testLimits) {
	l := &testLimits{refuse: map[string]error{}, most: 100}
	return newHarness(t, func(c *Config) { c.Limits = l }), l
}

const smallTask = `{"delay":"1h","payload":"x"}`

// TestRatesRefuse checks that a call beyond a rate is answered with the quota, before its body is read.
func TestRatesRefuse(t *testing.T) {
	for _, what := range []string{"call", "schedule"} {
		h, l := limited(t)
		l.refuse[what] = &quota.Exceeded{
			Quota: quota.SchedulesPerSecond, Limit: 2.5, Used: 2.5, RetryAfter: 1200 * time.Millisecond,
		}
		a := h.call("PUT", "/v1/tasks/a", "{no JSON")
		p := a.mustProblem(t, 429, "")
		if p["quota"] != "schedules_per_second" || p["limit"] != "2.50" || p["used"] != "2.50" ||
			p["retry_after"] != 2.0 || a.Header.Get("Retry-After") != "2" {
			t.Errorf("%s: %s", what, a.text)
		}
		if h.call("GET", "/v1/tasks/a", "").StatusCode == 429 && what == "schedule" {
			t.Error("a read counts as a schedule")
		}
		if h.call("GET", "/v1/cluster", "").StatusCode == 429 {
			t.Error("a call about the whole cluster has a quota")
		}
	}
}

// TestLimitsKnowTheCaller checks that calls count for the namespace of their path.
func TestLimitsKnowTheCaller(t *testing.T) {
	h, l := limited(t)
	h.call("PUT", "/v1/tasks/a", smallTask).mustStatus(t, 201)
	if got := strings.Join(l.asked, ", "); got != "call default , schedule default " {
		t.Errorf("asked for %q", got)
	}
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
	before := len(l.asked)
	h.call("PUT", "/v1/tasks/a", "{no JSON"+strings.Repeat(" ", 2*bodyBeside)).mustProblem(t, 403, "")
	if n := len(l.asked) - before; n != 1 {
		t.Errorf("%d questions for a body that is too long", n)
	}
	lines := `{"op":"schedule","id":"a","delay":"1h","payload":"x"}` + "\n" +
		`{"op":"schedule","id":"b",` + large[1:] + "\n" + `{"op":"cancel","id":"a"}` + "\n"
	a := h.call("POST", "/v1/batch", lines, "Content-Type", "application/x-ndjson")
	if got := strings.Split(a.text, "\n"); len(got) != 4 || !strings.Contains(got[1], "quota-exceeded") || l.lines != 1 {
		t.Errorf("%s, %d lines counted", a.text, l.lines)
	}
}
