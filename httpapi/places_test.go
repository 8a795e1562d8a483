package httpapi

import (
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// TestOneKeyDoesNotLockOthersOut checks that idle batches, streams and waiting leases of one key leave room for others
// at the same address, and that those of a namespace leave room for another one.
func TestOneKeyDoesNotLockOthersOut(t *testing.T) {
	for path, body := range map[string]string{
		"/v1/batch": "", "/v1/queues/q/stream": "", "/v1/queues/q/lease": `{"wait":"1m"}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, withAccess, func(c *Config) { c.MaxBatches, c.MaxStreams, c.MaxPolls = 8, 8, 8 })
			call := func(caller string, body io.Reader) *httptest.ResponseRecorder {
				r := httptest.NewRequest("POST", path, body)
				r.Header.Set("Authorization", "Bearer "+caller)
				r.Header.Set("Content-Type", jsonType)
				if strings.HasSuffix(path, "batch") || strings.HasSuffix(path, "stream") {
					r.Header.Set("Content-Type", ndjsonType)
				}
				w := httptest.NewRecorder()
				h.server.ServeHTTP(w, r)
				return w
			}
			var idle sync.WaitGroup
			var ends []*io.PipeWriter
			hold := func(caller string, n int) {
				for range n {
					in, end := io.Pipe()
					ends = append(ends, end)
					idle.Go(func() { call(caller, io.MultiReader(strings.NewReader(body), in)) })
				}
				synctest.Wait()
			}
			end := func() {
				for _, end := range ends {
					_ = end.Close()
				}
			}
			first, second := "schedule@a consume@a", "consume@a schedule@a"
			hold(first, 4)
			if body != "" { // a lease reads its whole body before it waits
				end()
				synctest.Wait()
			}
			refused := func(caller, limit string) {
				t.Helper()
				w := call(caller, strings.NewReader(""))
				if w.Code != 429 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `"limit":"`+limit+`"`) {
					t.Errorf("%s of %q: %d %s", path, caller, w.Code, w.Body)
				}
			}
			refused(first, "4")
			hold(second, 2)
			refused(second, "2")
			refused("consume@a schedule@a read@a", "6") // the namespace has three quarters
			if w := call("schedule@b consume@b", strings.NewReader("")); w.Code != 200 {
				t.Errorf("%s of another namespace: %d %s", path, w.Code, w.Body)
			}
			end()
			h.server.close() // ends the leases
			idle.Wait()
		})
	}
}

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
