package client

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"
)

// The counts of the wheels and of the events are read from the paths of the contract.
func TestOutlook(t *testing.T) {
	var paths []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.RequestURI)
		_, _ = io.WriteString(w, `{"now":"2026-11-20T00:00:00.000Z","waiting":3,"due_within":{"1s":1,"1m":2,"1h":3},
			"missing_shards":[4],"step_ms":5000,"late_within_ms":[1,2],"steps":[{"fired":7,"late":[6,1,0]}]}`)
	}))
	t.Cleanup(server.Close)
	c, err := New(Config{Addrs: []string{server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	a, err := c.Activity(t.Context(), 4, time.Minute)
	if err != nil || a.Steps[0].Fired != 7 || !slices.Equal(a.Steps[0].Late, []uint64{6, 1, 0}) || !slices.Equal(a.Missing, []uint32{4}) {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := c.Wheel(t.Context(), 0); err == nil {
		t.Error("steps that are a list were read as an object")
	}
	if want := []string{"/v1/activity?shard=4&since=1m0s", "/v1/wheel"}; !slices.Equal(paths[:2], want) {
		t.Errorf("asked for %q, want %q", paths, want)
	}
}
