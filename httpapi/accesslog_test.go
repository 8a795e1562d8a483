package httpapi

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"
)

// The access log has one record of each call, with the same keys whatever becomes of the call. It shows no query and no
// secret in a path.
func TestAccessLog(t *testing.T) {
	var out bytes.Buffer
	h := newHarness(t, withAccess, func(c *Config) { c.AccessLog = slog.New(slog.NewJSONHandler(&out, nil)) })
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	always := []string{"bytes", "from", "level", "method", "msg", "path", "status", "time", "took"}
	known := slices.Sorted(slices.Values(append(slices.Clone(always), "caller", "caller_id", "namespace", "route")))
	for _, c := range []struct {
		caller, method, path, body string
		header                     []string
		status                     float64
		keys                       []string
		want                       map[string]any
	}{
		{caller: "schedule@a", method: "PUT", path: "/v1/tasks/t?x=1", body: `{"delay":"1h"}`, status: 400, keys: known,
			want: map[string]any{"path": "/v1/tasks/t", "route": "/v1/tasks/:id", "namespace": "a", "method": "PUT"}},
		{caller: "schedule@a", method: "PUT", path: "/v1/tasks/t", body: `{"delay":"1h"}`, status: 201, header: []string{
			"Traceparent", trace}, keys: slices.Sorted(slices.Values(append(slices.Clone(known), "id"))),
			want: map[string]any{"id": trace}},
		{method: "GET", path: "/v1/tasks/t", status: 401,
			keys: slices.Sorted(slices.Values(append(slices.Clone(always), "route")))},
		{method: "GET", path: "/nowhere", status: 404, keys: always},
	} {
		out.Reset()
		h.as(c.caller, c.method, c.path, c.body, c.header...)
		var record map[string]any
		if err := json.Unmarshal(out.Bytes(), &record); err != nil {
			t.Fatalf("%s %s: %v in %s", c.method, c.path, err, &out)
		}
		keys := make([]string, 0, len(record))
		for key := range record {
			keys = append(keys, key)
		}
		if slices.Sort(keys); !slices.Equal(keys, c.keys) {
			t.Errorf("%s %s: keys %v, want %v", c.method, c.path, keys, c.keys)
		}
		if record["status"] != c.status || record["msg"] != "call" || record["level"] != "INFO" {
			t.Errorf("%s %s: %v", c.method, c.path, record)
		}
		for key, want := range c.want {
			if record[key] != want {
				t.Errorf("%s %s: %s is %v, want %v", c.method, c.path, key, record[key], want)
			}
		}
	}
}
