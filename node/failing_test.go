package node_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/node"
	"github.com/belfryhq/belfry/node/nodetest"
)

// A failing path holds no other path of its host: beside a thousand tasks for a path that refuses them, fails or never
// answers, a task a second for another path is at most a second late after the first five seconds. Tasks that each fail
// at a path of their own hold no other path either.
func TestFailingPaths(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status, tasks int
		path          string
	}{
		"one, 422": {422, 1000, "/bad"}, "one, 404": {404, 1000, "/bad"}, "one, 500": {500, 1000, "/bad"},
		"one, never": {0, 1000, "/bad"}, "many, 500": {500, 300, "/bad/%d"}, "many, never": {0, 300, "/bad/%d"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newFailingReceiver(t, func(h hit) int {
					if h.path == "/good" {
						return http.StatusOK
					}
					return test.status
				})
				r.scheduleBad(t, test.tasks, test.path)
				r.checkGood(t, 15, "/good")
			})
		})
	}
}

// Payloads that a receiver fails on hold no task for the same URL: a good one comes at the latest after 64 attempts of
// the bad ones.
func TestPoison(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newFailingReceiver(t, func(h hit) int {
			if strings.HasPrefix(h.id, "good") {
				return http.StatusOK
			}
			return http.StatusInternalServerError
		})
		r.scheduleBad(t, 300, "/one")
		r.checkGood(t, 15, "/one")
	})
}

// A receiver that is down gets no storm: at most an attempt in 250 ms from each shard, over all of its paths. It gets its
// tasks soon after it is back, none of them has used up its attempts, and the queue tells of it meanwhile.
func TestReceiverDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const tasks, shards = 300, 3
		var back atomic.Bool
		r := newFailingReceiver(t, func(hit) int {
			if back.Load() {
				return http.StatusOK
			}
			return http.StatusServiceUnavailable
		})
		for path := range 3 {
			r.schedule(t, fmt.Sprintf("path-%d", path), tasks/3, fmt.Sprintf("/path-%d", path))
		}
		time.Sleep(20 * time.Second)
		r.reset()
		const watched = 30 * time.Second
		time.Sleep(watched)
		if n := len(r.reset()); n == 0 || n > shards*int(watched/(250*time.Millisecond)) {
			t.Errorf("%d attempts in %v at a receiver that is down", n, watched)
		} else {
			t.Logf("%d attempts in %v", n, watched)
		}
		r.checkBroken(t)
		back.Store(true)
		time.Sleep(30 * time.Second)
		delivered := map[string]bool{}
		for _, h := range r.reset() {
			delivered[h.id] = true
		}
		if len(delivered) != tasks {
			t.Errorf("%d of %d delivered", len(delivered), tasks)
			for task, err := range r.client.List(t.Context(), client.Filter{}) {
				if err != nil || !delivered[task.ID] {
					t.Errorf("%v: %+v", err, task)
				}
			}
		}
		if queue, err := r.client.Queue(t.Context(), "default"); err != nil || len(queue.Broken) > 0 {
			t.Errorf("%+v, %v", queue, err)
		}
	})
}

// failingReceiver is an HTTP server beside three nodes. It answers with the status that judge returns, and never for
// 0.
type failingReceiver struct {
	cluster *nodetest.Cluster
	client  *client.Client
	url     string
	judge   func(hit) int

	mu  sync.Mutex
	got []hit
}

// hit is a request of the receiver.
type hit struct {
	id, path string
	at       time.Time
}

func newFailingReceiver(t *testing.T, judge func(hit) int) *failingReceiver {
	r := &failingReceiver{judge: judge}
	r.cluster = nodetest.Start(t, 3, func(_ int, cfg *node.Config) { cfg.Shards = 3 })
	listener := r.cluster.Listen()
	r.url = "http://" + listener.Addr().String()
	stop := make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		h := hit{req.Header.Get("ce-subject"), req.URL.Path, time.Now()}
		r.mu.Lock()
		r.got = append(r.got, h)
		r.mu.Unlock()
		status := r.judge(h)
		if status == 0 {
			select {
			case <-req.Context().Done():
			case <-stop:
			}
			return
		}
		w.WriteHeader(status)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		close(stop)
		_ = server.Close()
	})
	r.client = r.cluster.Client(client.Config{})
	return r
}

// checkBroken checks that the queue names the paths that fail.
func (r *failingReceiver) checkBroken(t *testing.T) {
	t.Helper()
	queue, err := r.client.Queue(t.Context(), "default")
	assert.NoError(t, err)
	paths := map[string]bool{}
	for _, b := range queue.Broken {
		paths[b.Path] = true
		if b.Receiver != r.url || b.LastError != "503 Service Unavailable" || time.Since(b.Since) < 40*time.Second {
			t.Errorf("%+v", b)
		}
	}
	if len(paths) < 3 {
		t.Errorf("the queue names %+v", queue.Broken)
	}
	findings, err := r.client.Doctor(t.Context())
	if err != nil || !slices.ContainsFunc(findings, func(f client.Finding) bool { return f.Code == "receiver-broken" }) {
		t.Errorf("doctor finds %+v, %v", findings, err)
	}
}

// reset returns the requests since the last call.
func (r *failingReceiver) reset() []hit {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = nil
	return got
}

func (r *failingReceiver) scheduleBad(t *testing.T, n int, path string) {
	t.Helper()
	r.schedule(t, "bad", n, path)
}

// schedule makes tasks due in a second. A path with a %d is another one for each of them.
func (r *failingReceiver) schedule(t *testing.T, prefix string, n int, path string) {
	t.Helper()
	var tasks []client.Task
	for i := range n {
		url := r.url + path
		if strings.Contains(path, "%d") {
			url = r.url + fmt.Sprintf(path, i)
		}
		tasks = append(tasks, client.Task{
			ID: fmt.Sprintf("%s-%04d", prefix, i), FireAt: time.Now().Add(time.Second), Target: &client.Target{URL: url},
			Retry: &client.Retry{MaxAttempts: 2},
		})
	}
	for result := range r.client.ScheduleMany(t.Context(), slices.Values(tasks)) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
	}
}

// checkGood schedules a task a second for a path that takes them, and judges how late each of them comes.
func (r *failingReceiver) checkGood(t *testing.T, n int, path string) {
	t.Helper()
	begin := time.Now()
	due := map[string]time.Time{}
	for i := range n {
		id, at := fmt.Sprintf("good-%03d", i), begin.Add(time.Duration(i+1)*time.Second).Truncate(time.Millisecond)
		due[id] = at
		_, err := r.client.Schedule(t.Context(), client.Task{ID: id, FireAt: at, Target: &client.Target{URL: r.url + path}})
		assert.NoError(t, err)
		time.Sleep(time.Until(at))
	}
	time.Sleep(5 * time.Second)
	late, bad := map[string]time.Duration{}, 0
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.got {
		if at, ok := due[h.id]; ok {
			if _, again := late[h.id]; again {
				t.Errorf("%s came again", h.id)
			}
			late[h.id] = h.at.Sub(at)
		} else {
			bad++
		}
	}
	worst := time.Duration(0)
	for i := range n {
		id := fmt.Sprintf("good-%03d", i)
		was, ok := late[id]
		worst = max(worst, was)
		if at := due[id]; at.Sub(begin) > 5*time.Second && (!ok || was > time.Second) {
			t.Errorf("%s came %v late (came: %v)", id, was, ok)
		}
	}
	t.Logf("%d of %d good ones, at most %v late, beside %d other attempts", len(late), n, worst, bad)
}
