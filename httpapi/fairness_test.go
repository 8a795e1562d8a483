package httpapi

import (
	"context"
	"io"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/admission"
	"github.com/belfryhq/belfry/internal/assert"
)

// callOfNamespace makes a call with a key that may schedule in one namespace.
func (h *harness) callOfNamespace(namespace, method, path, media string, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, body)
	r.Header.Set("Authorization", "Bearer schedule@"+namespace)
	r.Header.Set("Content-Type", media)
	w := httptest.NewRecorder()
	h.server.ServeHTTP(w, r)
	return w
}

// TestCallsOfANamespaceLeaveRoom checks that calls of one namespace that do not end leave room for another one.
func TestCallsOfANamespaceLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, withAccess, func(c *Config) { c.MaxInFlight = 8 })
		leave := make(chan struct{})
		h.fake.do = func(_ context.Context, cmds []*fsmpb.Command) []task.Reply {
			if cmds[0].Namespace == "a" {
				<-leave
			}
			return []task.Reply{{Err: task.ErrUnknown}}
		}
		put := func(namespace string) int {
			w := h.callOfNamespace(namespace, "PUT", "/v1/tasks/x", jsonType, strings.NewReader(`{"delay":"1h"}`))
			if w.Code == 429 && (w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `"limit":"4"`)) {
				t.Errorf("%s", w.Body)
			}
			return w.Code
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { put("a") })
		}
		synctest.Wait()
		assert.Equal(t, put("a"), 429, "a fifth call of the namespace")
		if code := put("b"); code == 429 {
			t.Error("the other namespace is refused")
		}
		close(leave)
		all.Wait()
		assert.Equal(t, h.server.inFlight.Taken(), 0, "calls are still counted")
	})
}

// TestBodiesOfANamespaceLeaveRoom checks that large bodies of one namespace leave memory for another one.
func TestBodiesOfANamespaceLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, withAccess, func(c *Config) { c.MemoryBytes = 4 * 32 << 10 })
		large := `{"delay":"1h","payload":"` + strings.Repeat("x", 20<<10)
		var all sync.WaitGroup
		var ends []*io.PipeWriter
		for range 2 {
			body, end := io.Pipe()
			ends = append(ends, end)
			all.Go(func() {
				h.callOfNamespace("a", "PUT", "/v1/tasks/x", jsonType, io.MultiReader(strings.NewReader(large), body))
			})
		}
		synctest.Wait()
		put := func(namespace string) int {
			return h.callOfNamespace(namespace, "PUT", "/v1/tasks/x", jsonType, strings.NewReader(large+`"}`)).Code
		}
		assert.Equal(t, put("a"), 429, "a third body of the namespace")
		assert.Equal(t, put("b"), 201, "a body of another namespace")
		for _, end := range ends {
			_ = end.Close()
		}
		all.Wait()
		assert.Equal(t, h.server.memory.Taken(), 0, "bytes are still held")
	})
}

// TestBatchesThatWaitTakeNoTurn checks that batches that wait for their clients, or for a commit, leave the node's
// processors to others.
func TestBatchesThatWaitTakeNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, withAccess, func(c *Config) { c.BatchChunkLines = 1 })
		h.server.work = admission.NewGate(1, 0, nil)
		leave := make(chan struct{})
		h.fake.do = func(_ context.Context, cmds []*fsmpb.Command) []task.Reply {
			if cmds[0].Namespace == "a" {
				<-leave
			}
			replies := make([]task.Reply, len(cmds))
			for i := range replies {
				replies[i].Err = task.ErrUnknown
			}
			return replies
		}
		line := `{"op":"schedule","id":"x","delay":"1h"}` + "\n"
		var all sync.WaitGroup
		body, end := io.Pipe()
		for _, lines := range []io.Reader{
			io.MultiReader(strings.NewReader(line), body), strings.NewReader(strings.Repeat(line, 10)),
		} {
			all.Go(func() { h.callOfNamespace("a", "POST", "/v1/batch", ndjsonType, lines) })
		}
		synctest.Wait()
		h.callOfNamespace("b", "PUT", "/v1/tasks/x", jsonType, strings.NewReader(`{"delay":"1h"}`))
		_ = end.Close()
		close(leave)
		all.Wait()
	})
}

// TestBatchesAreCommittedByPartsInACrowd checks that a batch is whole while one namespace calls, and is committed by
// parts with the answers in order beside another one.
func TestBatchesAreCommittedByPartsInACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // another namespace counts for a while after its call
		h := newHarness(t, withAccess)
		var sizes []int
		h.fake.do = func(_ context.Context, cmds []*fsmpb.Command) []task.Reply {
			sizes = append(sizes, len(cmds))
			replies := make([]task.Reply, len(cmds))
			for i, cmd := range cmds {
				replies[i].Result = &fsmpb.Result{Code: fsmpb.Code_CODE_CREATED, Revision: uint64(len(cmd.Id))}
			}
			return replies
		}
		var body strings.Builder
		var want []string
		for i := range 100 {
			id := strings.Repeat("x", i+1)
			body.WriteString(`{"op":"schedule","id":"` + id + `","delay":"1h"}` + "\n")
			want = append(want, `{"id":"`+id+`","status":201,"revision":`+strconv.Itoa(i+1)+"}")
		}
		batch := func() {
			t.Helper()
			w := h.callOfNamespace("a", "POST", "/v1/batch", ndjsonType, strings.NewReader(body.String()))
			if got := strings.Split(strings.TrimSpace(w.Body.String()), "\n"); !slices.Equal(got, want) {
				t.Errorf("%d answers: %.300s", len(got), w.Body)
			}
		}
		batch()
		alone := len(sizes)
		if slices.Max(sizes) < 65 {
			t.Errorf("commits of %v lines alone", sizes)
		}
		h.callOfNamespace("b", "GET", "/v1/tasks/x", "", strings.NewReader(""))
		batch()
		if most := slices.Max(sizes[alone:]); most > 64 {
			t.Errorf("a commit of %d lines beside another namespace", most)
		}
	})
}

// TestPanicsGiveTurnsBack checks that a call that panics while it is parsed takes no turn from later ones.
func TestPanicsGiveTurnsBack(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.Receivers = urlCheck(func(string) *task.FieldError { panic("broken") }) })
	h.server.work = admission.NewGate(1, 0, nil)
	for range 2 {
		h.call("PUT", "/v1/tasks/x", `{"delay":"1h","target":{"url":"https://shop.example/"}}`).mustStatus(t, 500)
	}
	h.call("PUT", "/v1/tasks/x", `{"delay":"1h"}`).mustStatus(t, 201)
}
