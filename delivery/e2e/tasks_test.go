package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// flow is a set of tasks in one queue with known due instants.
type flow struct {
	queue string
	due   map[string]time.Time // by id
	terms terms                // of the shards at the time of planning
}

// evenly plans n tasks in a queue, due at regular intervals from start on.
func (s *stage) evenly(t testing.TB, queue string, n int, start time.Time, every time.Duration) flow {
	t.Helper()
	f := flow{queue, make(map[string]time.Time, n), s.terms(t)}
	start = start.Truncate(time.Millisecond)
	for i := range n {
		f.due[fmt.Sprintf("%s-%06d", queue, i)] = start.Add(time.Duration(i) * every).Truncate(time.Millisecond)
	}
	return f
}

// ids returns the flow's ids, sorted. For an evenly planned flow that is the order of the due instants.
func (f flow) ids() []string { return slices.Sorted(maps.Keys(f.due)) }

const chunkLines = 1000

// schedule schedules a flow by batches, each through another node. The fields apply to every task. A batch that a busy
// machine cannot commit at once is repeated, with the same keys.
func (s *stage) schedule(t testing.TB, f flow, fields object) {
	t.Helper()
	i := 0
	for ids := range slices.Chunk(f.ids(), chunkLines) {
		var lines bytes.Buffer
		out := json.NewEncoder(&lines)
		for _, id := range ids {
			line := object{"op": "schedule", "id": id, "key": id, "queue": f.queue, "fire_at": f.due[id], "payload": id}
			maps.Copy(line, fields)
			assert.NoError(t, out.Encode(line))
		}
		await(t, 30*time.Second, "scheduling "+f.queue, func() (bool, string) {
			err := s.nodes[i%len(s.nodes)].batch(t.Context(), lines.Bytes(), len(ids))
			i++
			return err == nil, fmt.Sprint(err)
		})
	}
}

// scheduledBefore fails the test if scheduling took longer than planned.
func scheduledBefore(t testing.TB, planned time.Time) {
	t.Helper()
	if late := time.Since(planned); late > 0 {
		t.Fatalf("scheduling took %v longer than planned", late)
	}
}

// batch sends lines, and returns an error unless each is done.
func (n node) batch(ctx context.Context, lines []byte, want int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url+"/v1/batch", bytes.NewReader(lines))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := n.callers.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	in := json.NewDecoder(resp.Body)
	for range want {
		var answer struct {
			ID      string          `json:"id"`
			Status  int             `json:"status"`
			Problem json.RawMessage `json:"problem"`
		}
		if err := in.Decode(&answer); err != nil {
			return err
		}
		if answer.Status > 299 {
			return fmt.Errorf("%s: %d %s", answer.ID, answer.Status, answer.Problem)
		}
	}
	return nil
}

func targetOf(url string, timeout time.Duration) object {
	return object{"url": url, "timeout": timeout.String()}
}

// putQueue sets a queue's policy through a node.
func (s *stage) putQueue(t testing.TB, n node, queue string, policy object) {
	t.Helper()
	_, err := n.call(t.Context(), http.MethodPut, queuePath(queue), policy, nil)
	assert.NoError(t, err, "setting queue %s", queue)
}

// all returns a queue's tasks, tombstones included.
func (s *stage) all(t testing.TB, queue string) []job {
	t.Helper()
	jobs, err := s.any().list(t.Context(), url.Values{"queue": {queue}})
	assert.NoError(t, err)
	return jobs
}

// states counts a queue's tasks by their state.
func (s *stage) states(t testing.TB, queue string) map[string]int {
	t.Helper()
	count := map[string]int{}
	for _, j := range s.all(t, queue) {
		count[j.State]++
	}
	return count
}

// awaitState waits until a queue has n tasks, all of them in the given state.
func (s *stage) awaitState(t testing.TB, queue, state string, n int, limit time.Duration) {
	t.Helper()
	await(t, limit, fmt.Sprintf("%d tasks of %s %s", n, queue, state), func() (bool, string) {
		count := s.states(t, queue)
		return count[state] == n && len(count) == 1, fmt.Sprint(count)
	})
}

// awaitTaken waits until a sink has taken n different tasks.
func awaitTaken(t testing.TB, s *sink, n int, limit time.Duration) {
	t.Helper()
	await(t, limit, fmt.Sprintf("%d taken", n), func() (bool, string) {
		taken, _ := s.counts()
		return taken >= n, fmt.Sprint(taken)
	})
}
