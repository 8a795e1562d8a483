package httpapi

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/httpapi/apitest"
)

// routeCaller sends drawn requests to a server over the fake.
type routeCaller struct {
	api *apitest.API
	h   *harness

	mu    sync.Mutex
	calls map[string][2]int // by operation: all calls, and those carried out
}

func newRouteCaller(t testing.TB) *routeCaller {
	api, err := apitest.Load(openAPIDocument)
	if err != nil {
		t.Fatal(err)
	}
	h := newHarness(t)
	h.fake.tokens = []view.JoinToken{{ID: "a", Created: testNow, Expires: testNow.Add(time.Hour)}} // an id that the calls use
	h.fake.operations = []view.Operation{{
		ID: "a", Kind: "drain", State: "running", Node: "n1", NodeName: "one", Total: 1,
		BeganAt: view.InstantOf(testNow.UnixMilli()),
	}}
	h.fake.access.lasting = true // the calls name few keys
	h.fake.access.keys = []access.KeyRecord{{ID: "a", Name: "a", Created: testNow, Grants: testCaller("read@a").Grants,
		Secrets: make([]access.KeySecret, 1)}}
	return &routeCaller{api: api, h: h, calls: map[string][2]int{}}
}

// patience is the time after which a caller goes, which ends its streams.
const patience = 30 * time.Millisecond

// call sends one request of any operation.
func (c *routeCaller) call(t *rapid.T) { c.callOne(t) }

// callOne sends one request of a named operation, or of any. It compares the answer with the document, and checks that
// a refusal has changed no task.
func (c *routeCaller) callOne(t *rapid.T, operations ...string) {
	r := c.api.Draw(t, operations...)
	target, err := url.ParseRequestURI(r.Target)
	if err != nil {
		t.Skip("no request line can carry it")
	}
	req := httptest.NewRequest(r.Method, "/", strings.NewReader(r.Body))
	req.URL, req.RequestURI = target, r.Target
	for _, h := range r.Header {
		req.Header.Set(h[0], h[1])
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	before := c.tasks()
	w, whole := c.serve(req.WithContext(ctx))
	if !whole {
		c.count(r.Operation, w.Code)
		return // the answer had begun, and its connection was cut because the caller had gone
	}
	if err := c.api.Check(r, req, w.Code, w.Header(), w.Body.Bytes()); err != nil {
		t.Fatalf("%v\n%v", r, err)
	}
	if w.Code >= 400 && !strings.Contains(r.Target, "/dead") && !equalTasks(before, c.tasks()) {
		t.Fatalf("%v\nwas refused with %d, and a task has changed", r, w.Code)
	}
	c.count(r.Operation, w.Code)
}

// serve answers a request. whole is false if the server cuts the connection.
func (c *routeCaller) serve(r *http.Request) (w *httptest.ResponseRecorder, whole bool) {
	w = httptest.NewRecorder()
	defer func() {
		if cause := recover(); cause != nil {
			whole = false
			if cause != http.ErrAbortHandler || r.Context().Err() == nil {
				panic(cause)
			}
		}
	}()
	c.h.server.ServeHTTP(w, r)
	return w, true
}

func (c *routeCaller) count(operation string, status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.calls[operation]
	n[0]++
	if status < http.StatusBadRequest {
		n[1]++
	}
	c.calls[operation] = n
}

func (c *routeCaller) tasks() map[string]*fsmpb.Task {
	c.h.fake.mu.Lock()
	defer c.h.fake.mu.Unlock()
	copied := map[string]*fsmpb.Task{}
	for id, t := range c.h.fake.tasks {
		copied[id] = proto.CloneOf(t)
	}
	return copied
}

func equalTasks(a, b map[string]*fsmpb.Task) bool {
	for id, t := range a {
		if !proto.Equal(t, b[id]) {
			return false
		}
	}
	return len(a) == len(b)
}

// TestEveryRouteKeepsTheContract checks for any request that the answer is documented, and that a refusal changes
// nothing. It continues until every operation was carried out once, so that the test covers more than refusals. From
// the second round on, half of the calls are of operations that were only refused.
func TestEveryRouteKeepsTheContract(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newRouteCaller(t)
		var left []string
		for range 40 {
			rapid.Check(undated{t}, func(t *rapid.T) {
				for range 5 {
					c.callOne(t)
					c.callOne(t, left...)
				}
			})
			if left = c.neverCarriedOut(); t.Failed() || len(left) == 0 {
				return
			}
		}
		t.Errorf("never carried out: %v, in calls: %v", left, c.calls)
	})
}

// undated is a test in a bubble, which cannot ask for the deadline of real time.
type undated struct{ rapid.TB }

func (c *routeCaller) neverCarriedOut() []string {
	return slices.DeleteFunc(c.api.Operations(), func(name string) bool { return c.calls[name][1] > 0 })
}

func FuzzRoutes(f *testing.F) {
	c := newRouteCaller(f)
	source := rand.NewChaCha8([32]byte{})
	for range 128 {
		seed := make([]byte, 2<<10) // rapid skips an input that ends too early
		_, _ = source.Read(seed)    // never fails
		f.Add(seed)
	}
	f.Fuzz(rapid.MakeFuzz(c.call))
}
