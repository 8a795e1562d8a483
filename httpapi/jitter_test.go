package httpapi

import (
	"fmt"
	"testing"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

func TestJitterSpreadsATie(t *testing.T) {
	h := newHarness(t)
	const n, span = 2000, 10 * time.Second
	base := testNow.Add(time.Hour).Truncate(time.Second)
	var parts [10]int
	for i := range n {
		body := fmt.Sprintf(`{"fire_at":%q,"jitter":"10s"}`, base.Format(time.RFC3339))
		h.call("PUT", fmt.Sprintf("/v1/tasks/t%d", i), body).mustStatus(t, 201)
		offset := time.UnixMilli(h.fake.last().GetSchedule().FireAtMs).Sub(base)
		if offset < 0 || offset > span {
			t.Fatalf("t%d is off by %v", i, offset)
		}
		parts[min(offset*10/span, 9)]++
	}
	for i, in := range parts {
		if in < n/20 || in > n/6 {
			t.Errorf("part %d of the window has %d of %d tasks", i, in, n)
		}
	}
}

// TestJitterDoesNotFollowTheSlots checks that tasks of one slot, and so of one shard, are spread like any others, even
// over a window of as many milliseconds as there are slots.
func TestJitterDoesNotFollowTheSlots(t *testing.T) {
	offsets := map[uint64]bool{}
	for i := 0; len(offsets) < 2; i++ {
		if i == 1_000_000 {
			t.Fatal("all tasks of a slot have one offset")
		}
		if id := fmt.Sprint(i); task.Slot("", id) == 7 {
			offsets[jitterHash("", id)%task.Slots] = true
		}
	}
}

// TestJitterOfEveryForm checks that every form of a schedule gets the same instant, as does a repeat, and that the key
// covers the jitter.
func TestJitterOfEveryForm(t *testing.T) {
	h := newHarness(t)
	const fields = `"delay":"1h","jitter":"1h"`
	a := h.call("PUT", "/v1/tasks/a", `{`+fields+`}`, keyHeader, "k").mustStatus(t, 201)["fire_at"]
	if a == "2026-11-21T11:00:00.001Z" {
		t.Fatal("the task is not spread; choose another id")
	}
	plain := h.fake.last().GetSchedule()
	if *plain.DelayMs != time.Hour.Milliseconds() {
		t.Errorf("a later touch would count from %d ms", *plain.DelayMs)
	}
	again := h.call("PUT", "/v1/tasks/a", `{`+fields+`}`, keyHeader, "k").mustStatus(t, 201)
	if again["fire_at"] != a {
		t.Errorf("repeated: %v, first: %v", again["fire_at"], a)
	}
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`, keyHeader, "k").mustProblem(t, 422, keyHeader)
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h","jitter":"2h"}`, keyHeader, "k").mustProblem(t, 422, keyHeader)
	h.call("DELETE", "/v1/tasks/a", "").mustStatus(t, 200)
	or := h.call("POST", "/v1/tasks/a/touch", `{"or_schedule":{`+fields+`}}`, keyHeader, "k2").mustStatus(t, 201)
	assert.Equal(t, or["fire_at"], a, "or_schedule")
	h.call("POST", "/v1/tasks/a/touch", `{"or_schedule":{"delay":"1h"}}`, keyHeader, "k2").mustProblem(t, 422, keyHeader)
	h.batch(`{"op":"schedule","id":"a",` + fields + `}`)
	assert.Equal(t, h.call("GET", "/v1/tasks/a", "").mustStatus(t, 200)["fire_at"], a, "batch")
	first := h.call("POST", "/v1/tasks", `{`+fields+`}`, keyHeader, "p").mustStatus(t, 201)
	second := h.call("POST", "/v1/tasks", `{`+fields+`}`, keyHeader, "p").mustStatus(t, 201)
	if first["fire_at"] != second["fire_at"] || first["fire_at"] == "2026-11-21T11:00:00.001Z" {
		t.Errorf("POST: %v and %v", first["fire_at"], second["fire_at"])
	}
}

func TestBadJitter(t *testing.T) {
	h := newHarness(t)
	for _, c := range []struct{ body, field, limit string }{
		{`{"delay":"1s","jitter":"-1s"}`, "jitter", spanLimit},
		{`{"delay":"1s","jitter":"36501d"}`, "jitter", spanLimit},
		{`{"delay":"1s","jitter":5}`, "jitter", ""},
		{`{"delay":"1s","jitter":"1s","jitter":"1s"}`, "jitter", ""},
		{`{"delay":"36500d","jitter":"1m"}`, "jitter", "100 years from now"},
		{`{"jitter":"1s"}`, "delay", ""},
	} {
		p := h.call("PUT", "/v1/tasks/a", c.body).mustProblem(t, 400, c.field)
		limit, _ := p["limit"].(string)
		assert.Equal(t, limit, c.limit, "%s: limit", c.body)
	}
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`).mustStatus(t, 201)
	h.call("PATCH", "/v1/tasks/a", `{"jitter":"1s"}`).mustProblem(t, 400, "jitter")
	h.call("POST", "/v1/tasks/a/touch", `{"delay":"1s","jitter":"1s"}`).mustProblem(t, 400, "jitter")
	h.call("POST", "/v1/tasks/a/touch", `{"or_schedule":{"delay":"1s","jitter":"x"}}`).mustProblem(t, 400,
		"or_schedule.jitter")
}
