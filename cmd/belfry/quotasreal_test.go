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

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/contract"
	"github.com/belfryhq/belfry/internal/gated"
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
	again atomic.Int64 // answers that nothing was done: each may have used a token of a rate
}

// call reports whether a call with one of two answers got the admitted one. An answer that says that nothing was done,
// and names no quota, is asked for again: a leadership may change on a busy machine.
func (q *quotaCaller) call(node, admitted int, method, path, body string) bool {
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
			q.again.Add(1)
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
func (q *quotaCaller) limitTo(node int, namespace, flag string) {
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
func (q *quotaCaller) schedule(namespace, prefix string, count int) (made []string) {
	q.t.Helper()
	var mu sync.Mutex
	var callers sync.WaitGroup
	for node := range q.urls {
		callers.Go(func() {
			for i := range count {
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

// refusalTimes adds up the times between refusals of a node, less any gap of a machine at a standstill.
type refusalTimes struct {
	mu   sync.Mutex
	last time.Time
	sum  time.Duration
}

// add counts a refusal.
func (r *refusalTimes) add() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if gap := now.Sub(r.last); gap <= 200*time.Millisecond {
		r.sum += gap
	}
	r.last = now
}

func (r *refusalTimes) total() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sum
}

// TestRateOfCallsOnRealNodes checks that the calls at three processes together keep to a rate, and that each refusal
// names the limit and the time to wait.
func TestRateOfCallsOnRealNodes(t *testing.T) {
	gated.Need(t, gated.Timed)
	g := newGuarded(t)
	const rate, lasts, callersEach = 50, 3 * time.Second, 3
	q := &quotaCaller{guarded: g, key: g.text(g.admin), quota: "calls_per_second", limit: rate}
	q.limitTo(0, "port", "--calls-per-second")
	var made atomic.Int64
	var callers sync.WaitGroup
	refusing := make([]refusalTimes, len(g.urls))
	begin := time.Now()
	for node := range g.urls {
		for range callersEach {
			callers.Go(func() {
				for refusing[node].total() < lasts {
					if q.call(node, http.StatusOK, "GET", "/v1/namespaces/port/queues", "") {
						made.Add(1)
					} else {
						refusing[node].add()
					}
				}
			})
		}
	}
	callers.Wait()
	took := time.Since(begin)
	var sum time.Duration
	for node := range refusing {
		sum += refusing[node].total()
	}
	n, used := float64(made.Load()), float64(made.Load()+q.again.Load())
	t.Logf("%v calls in %v at %d a second, %v tried again; the nodes refused for %v together", n, took, rate, used-n, sum)
	// The bucket has up to one second's tokens at first. A node has its share of the rate while it refuses calls.
	most, least := 1.05*rate*(took.Seconds()+1), 0.95*rate*sum.Seconds()/float64(len(refusing))
	if n > most || used < least {
		t.Errorf("not between %.0f and %.0f", least, most)
	}
}

// TestPendingTasksOnRealNodes checks that the calls at three processes together keep to a number of tasks.
func TestPendingTasksOnRealNodes(t *testing.T) {
	gated.Need(t, gated.Real)
	t.Parallel()
	g := newGuarded(t)
	const limit = 60
	q := &quotaCaller{guarded: g, key: g.text(g.admin), quota: "max_pending", limit: limit}
	q.limitTo(1, "dock", "--max-pending")
	tasks := q.schedule("dock", "first", 40)
	assert.MustEqual(t, len(tasks), limit, "tasks")
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
	assert.Equal(t, more, 5, "tasks")
}
