package httpapi

import (
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

func TestPlacesOfAnAddress(t *testing.T) {
	p := newPlaces("streams", 8)
	take := func(remote string) func() {
		t.Helper()
		leave, err := p.take(remote)
		if err != nil {
			t.Fatalf("%s: %v", remote, err)
		}
		return leave
	}
	refused := func(remote, limit string) {
		t.Helper()
		leave, err := p.take(remote)
		if err == nil {
			leave()
			t.Fatalf("%s takes a place", remote)
		}
		if got := problemOf(err); got.status != 429 || got.limit != limit || got.retryAfter == 0 {
			t.Errorf("%s: %+v", remote, got)
		}
	}
	var leaves []func()
	for i := range 6 { // one machine, with any port or address in its network
		leaves = append(leaves, take(fmt.Sprintf("[2001:db8::%d%%eth0]:%d", i+1, 1000+i)))
	}
	refused("[2001:db8::ffff]:1", "6")
	first := take("192.0.2.1:1")
	take("[::ffff:192.0.2.1]:2")
	refused("192.0.2.1:3", "8") // no place is left at all
	refused("192.0.2.2:1", "8")
	leaves[0]()
	take("[2001:db8::7]:1")
	first()
	take("@")
	if p.taken != 8 || len(p.by) != 3 {
		t.Errorf("%d places, of %v", p.taken, p.by)
	}
}

func TestPlacesAreGivenBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlaces("streams", rapid.IntRange(1, 9).Draw(t, "limit"))
		var leaves []func()
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			if len(leaves) > 0 && rapid.Bool().Draw(t, "leaves") {
				leaves[0]()
				leaves = leaves[1:]
				continue
			}
			remote := fmt.Sprintf("192.0.2.%d:1", rapid.IntRange(1, 3).Draw(t, "from"))
			before, of := p.taken, p.by[callerOf(remote)]
			leave, err := p.take(remote)
			if (err == nil) != (before < p.limit && of < p.share()) {
				t.Fatalf("%d of %d, %d of %d: %v", before, p.limit, of, p.share(), err)
			}
			if err == nil {
				leaves = append(leaves, leave)
			}
		}
		for _, leave := range leaves {
			leave()
		}
		if p.taken != 0 || len(p.by) != 0 {
			t.Fatalf("%d places of %v are never given back", p.taken, p.by)
		}
	})
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
