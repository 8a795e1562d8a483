package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

// refusal is the problem of a call that a quota refuses.
type refusal struct {
	Type  string `json:"type"`
	Quota string `json:"quota"`
	Limit string `json:"limit"`
	Used  string `json:"used"`
}

// quotaCaller makes the calls of a caller of a namespace with one quota, and checks each refusal.
type quotaCaller struct {
	*guarded
	key   string // its text
	quota string
	limit int
}

// call reports whether a call with one of two answers got the admitted one. An answer that says that nothing was done,
// and names no quota, is asked for again: a leadership may change on a busy machine.
func (q quotaCaller) call(node, admitted int, method, path, body string) bool {
	q.t.Helper()
	for {
		resp, text, err := q.ask(q.t.Context(), q.key, node, method, path, body)
		if err != nil {
			q.t.Errorf("%s %s: %v", method, path, err)
			return false
		}
		switch resp.StatusCode {
		case admitted:
			return true
		case http.StatusServiceUnavailable:
			continue
		}
		var p refusal
		err = json.Unmarshal([]byte(text), &p)
		wait, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		if err != nil || resp.StatusCode != http.StatusTooManyRequests || wait < 1 || p.Used == "" ||
			p.Type != contract.ProblemPrefix+"quota-exceeded" || p.Quota != q.quota || p.Limit != strconv.Itoa(q.limit) {
			q.t.Errorf("%s %s: %d, Retry-After %d: %s", method, path, resp.StatusCode, wait, text)
		}
		return false
	}
}

// limitTo sets the quota of a namespace through a node, and waits until all nodes know it.
func (q quotaCaller) limitTo(node int, namespace, flag string) {
	q.t.Helper()
	q.must(node, q.admin, fmt.Sprint("namespace put ", namespace, " ", flag, " ", q.limit))
	await(q.t, "all nodes know the quota", func() bool {
		for node := range q.urls {
			_, text, err := q.ask(q.t.Context(), q.key, node, "GET", "/v1/namespaces", "")
			if err != nil || !strings.Contains(text, fmt.Sprintf(`"%s":%d`, q.quota, q.limit)) {
				return false
			}
		}
		return true
	})
}

// schedule makes calls that make a task each, side by side at all nodes, and returns the paths of the tasks.
func (q quotaCaller) schedule(namespace, prefix string, each int) (made []string) {
	q.t.Helper()
	var mu sync.Mutex
	var callers sync.WaitGroup
	for node := range q.urls {
		callers.Go(func() {
			for i := range each {
				path := fmt.Sprintf("/v1/namespaces/%s/tasks/%s-%d-%d", namespace, prefix, node, i)
				if q.call(node, http.StatusCreated, "PUT", path, `{"delay":"1h"}`) {
					mu.Lock()
					made = append(made, path)
					mu.Unlock()
				}
			}
		})
	}
	callers.Wait()
	return made
}

// TestQuotasOnRealNodes checks that the calls at three processes together keep to a rate and to a number of tasks, and
// that each refusal names the limit and the time to wait.
func TestQuotasOnRealNodes(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	admin := g.text(g.admin)
	t.Run("calls_per_second", func(t *testing.T) {
		const rate, lasts = 100, 3 * time.Second
		q := quotaCaller{g, admin, "calls_per_second", rate}
		q.limitTo(0, "port", "--calls-per-second")
		var calls, made atomic.Int64
		var callers sync.WaitGroup
		begin := time.Now()
		for node := range g.urls {
			callers.Go(func() {
				for time.Since(begin) < lasts {
					calls.Add(1)
					if q.call(node, http.StatusOK, "GET", "/v1/namespaces/port/queues", "") {
						made.Add(1)
					}
				}
			})
		}
		callers.Wait()
		took := time.Since(begin).Seconds()
		t.Logf("%d of %d calls in %.2f s", made.Load(), calls.Load(), took)
		// The bucket has up to one second's tokens at first.
		if n := float64(made.Load()); n > 1.05*rate*(took+1) || n < 0.95*rate*took || made.Load() == calls.Load() {
			t.Errorf("%v of %d calls in %.2f s at %d a second", n, calls.Load(), took, rate)
		}
	})
	t.Run("max_pending", func(t *testing.T) {
		const limit = 60
		q := quotaCaller{g, admin, "max_pending", limit}
		q.limitTo(1, "dock", "--max-pending")
		tasks := q.schedule("dock", "first", 40)
		if len(tasks) != limit {
			t.Fatalf("%d tasks of %d", len(tasks), limit)
		}
		for i, path := range tasks[:5] {
			q.call(i%3, http.StatusOK, "PUT", path, `{"delay":"2h"}`) // a task that is there needs no room
			q.call(i%3, http.StatusOK, "DELETE", path, "")
		}
		more, turns := 0, 0
		await(t, "the room is used again", func() bool { // freed room is found after a moment
			turns++
			more += len(q.schedule("dock", fmt.Sprint("turn", turns), 4))
			return more >= 5
		})
		if more != 5 {
			t.Errorf("%d tasks in place of 5", more)
		}
	})
}
