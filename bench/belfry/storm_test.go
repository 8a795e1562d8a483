package belfry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/assert"
)

// stormed answers the calls of a storm and counts them.
type stormed struct {
	mu      sync.Mutex
	calls   int
	lines   int
	targets []string
	refuses bool
	enough  chan struct{} // closed after some calls
}

func (n *stormed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.calls++; n.calls == 8 {
		close(n.enough)
	}
	switch {
	case err != nil || r.Header.Get("Authorization") != "Bearer the key":
		w.WriteHeader(http.StatusUnauthorized)
		return
	case n.refuses:
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	for line := range bytes.Lines(body) {
		var task struct {
			Target struct{ URL string }
		}
		if err := json.Unmarshal(line, &task); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		n.lines++
		if task.Target.URL != "" {
			n.targets = append(n.targets, task.Target.URL)
		}
	}
}

// serveStorm runs a storm until the node has met enough of its calls, and returns the number of tasks that the storm
// counts as acknowledged.
func serveStorm(t *testing.T, n *stormed, key string, s subject.Storm) (tasks int, err error) {
	t.Helper()
	server := httptest.NewServer(n)
	defer server.Close()
	settings, err := json.Marshal(stormConfig{URLs: []string{server.URL}, Key: key, Storm: s})
	assert.NoError(t, err)
	in, input := io.Pipe()
	output, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := ServeStorm(t.Context(), in, out)
		_ = out.CloseWithError(errors.Join(err, io.EOF))
		ended <- err
	}()
	if _, err := fmt.Fprintf(input, "%s\n", settings); err != nil {
		t.Fatal(err)
	}
	var begun string
	if _, err := fmt.Fscanln(output, &begun); err != nil {
		return 0, <-ended
	}
	if s.Tasks == 0 && key != "" {
		select {
		case <-n.enough:
		case err := <-ended:
			return 0, err
		}
	}
	for _, url := range n.targets[:min(len(n.targets), 1)] {
		resp, err := http.Post(url, "application/json", strings.NewReader("1"))
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("the receiver of the storm: %v, %v", resp, err)
		} else {
			_ = resp.Body.Close()
		}
	}
	go func() { _ = input.Close() }()
	if _, err := fmt.Fscanln(output, &tasks); err != nil {
		return 0, <-ended
	}
	return tasks, nil
}

func TestStorms(t *testing.T) {
	for _, s := range []subject.Storm{
		{Kind: subject.StormBatches, Connections: 3, Batch: 10, Payload: 20},
		{Kind: subject.StormCalls, Connections: 3, Payload: 20},
		{Kind: subject.StormDue, Connections: 3, Tasks: 2500, Payload: 20, At: time.Now().Add(time.Hour)},
	} {
		n := &stormed{enough: make(chan struct{})}
		tasks, err := serveStorm(t, n, "the key", s)
		counted := tasks > 0 && tasks <= n.lines && (s.Tasks == 0 || tasks == s.Tasks)
		if err != nil || !counted || (s.Tasks > 0) != (n.targets != nil) {
			t.Errorf("%s: %d tasks, the node has met %d, %d with a target: %v", s.Kind, tasks, n.lines, len(n.targets), err)
		}
	}
}

// TestStormGoesOnWhenRefused checks that a refusal is no end, and that a wrong call is.
func TestStormGoesOnWhenRefused(t *testing.T) {
	n := &stormed{enough: make(chan struct{}), refuses: true}
	calls := subject.Storm{Kind: subject.StormCalls, Connections: 2}
	if tasks, err := serveStorm(t, n, "the key", calls); err != nil || tasks != 0 {
		t.Errorf("%d tasks: %v", tasks, err)
	}
	n = &stormed{enough: make(chan struct{})}
	_, err := serveStorm(t, n, "another", subject.Storm{Kind: subject.StormCalls, Connections: 1})
	assert.Error(t, err, "a storm with a wrong key goes on")
	_, err = serveStorm(t, n, "the key", subject.Storm{Kind: "mild"})
	assert.Error(t, err, "there is a mild storm")
}
