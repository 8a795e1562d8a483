package httpapi

import (
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// TestOneAddressDoesNotLockOthersOut checks that idle batches of one address leave room for others, and that streams do
// too.
func TestOneAddressDoesNotLockOthersOut(t *testing.T) {
	for _, path := range []string{"/v1/batch", "/v1/queues/q/stream"} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, func(c *Config) { c.MaxBatches, c.MaxStreams = 4, 4 })
			call := func(remote string, body io.Reader) *httptest.ResponseRecorder {
				r := httptest.NewRequest("POST", path, body)
				r.Header.Set("Content-Type", ndjsonType)
				r.RemoteAddr = remote
				w := httptest.NewRecorder()
				h.server.ServeHTTP(w, r)
				return w
			}
			var idle sync.WaitGroup
			var ends []*io.PipeWriter
			for range 3 {
				body, end := io.Pipe()
				ends = append(ends, end)
				idle.Go(func() { call("192.0.2.1:1", body) })
			}
			synctest.Wait()
			if w := call("192.0.2.1:2", strings.NewReader("")); w.Code != 429 || w.Header().Get("Retry-After") == "" ||
				!strings.Contains(w.Body.String(), `"limit":"3"`) {
				t.Errorf("%s, the same address: %d %s", path, w.Code, w.Body)
			}
			if w := call("192.0.2.2:1", strings.NewReader("")); w.Code != 200 {
				t.Errorf("%s, another address: %d %s", path, w.Code, w.Body)
			}
			for _, end := range ends {
				_ = end.Close()
			}
			idle.Wait()
		})
	}
}
