package httpapi

import (
	"strings"
	"testing"
)

func TestWheel(t *testing.T) {
	h := newHarness(t)
	got := h.call("GET", "/v1/wheel?shard=3", "")
	got.mustStatus(t, 200)
	const want = `{"now":"2026-11-21T10:00:00.000Z","waiting":70,"due_within":{"1s":1,"10s":2,"1m":3,"10m":4,"1h":5},` +
		`"steps":{"from":"2026-11-21T10:00:00.000Z","step_ms":4000,"tasks":[7,8]},` +
		`"rows":[{"level":1,"from":"2026-11-21T09:59:57.696Z","slot_ms":64,"tasks":[4,4,`
	if !strings.HasPrefix(got.text, want) || !strings.HasSuffix(strings.TrimSpace(got.text), `"beside":6,"missing_shards":[]}`) {
		t.Errorf("%s, want %s", got.text, want)
	}
	got = h.call("GET", "/v1/wheel?shard=9", "")
	got.mustStatus(t, 200)
	if !strings.Contains(got.text, `"missing_shards":[9]`) || !strings.Contains(got.text, `"rows":[]`) {
		t.Errorf("without an answer: %s", got.text)
	}
}

func TestActivity(t *testing.T) {
	got := newHarness(t).call("GET", "/v1/activity?shard=3&since=2026-11-21T09:59:00Z", "")
	got.mustStatus(t, 200)
	const want = `{"at":"2026-11-21T09:59:00.000Z","scheduled":3,"fired":2,"delivered":3,"failed":4,"dead":5,"cancelled":6,` +
		`"skipped":7,"late":[8,8,8,8,8,8,8,8,8,8,8,8],"held":[9]}`
	if !strings.Contains(got.text, want) || !strings.Contains(got.text, `"missing_shards":[2]`) {
		t.Errorf("%s, want %s", got.text, want)
	}
}

func TestWrongParametersOfWheelAndActivity(t *testing.T) {
	h := newHarness(t)
	for query, field := range map[string]string{
		"/v1/wheel?shard=0": "shard", "/v1/wheel?shard=257": "shard", "/v1/wheel?shard=x": "shard", "/v1/wheel?since=1m": "since",
		"/v1/activity?since=-1s": "since", "/v1/activity?since=soon": "since", "/v1/activity?shard=": "shard",
	} {
		if got := h.call("GET", query, "").mustStatus(t, 400); got["field"] != field {
			t.Errorf("%s: %v", query, got)
		}
	}
}
