package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
)

// shards imitates a cluster of four shards: the last digit of an id modulo 4 is its shard. A closed shard alternately
// hangs on writes and refuses them.
type shards struct {
	mu        sync.Mutex
	closed    map[uint32]bool
	writes    int
	cancelled []string
	written   chan uint32
}

func (s *shards) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the caller has gone
	id := path.Base(strings.TrimSuffix(r.URL.Path, "/touch"))
	shard := uint32(id[len(id)-1]-'0') % 4
	s.mu.Lock()
	s.writes++
	closed, hangs := s.closed[shard], s.writes%2 == 0
	if r.Method == http.MethodDelete {
		s.cancelled = append(s.cancelled, id)
	}
	s.mu.Unlock()
	switch {
	case closed && hangs:
		s.note(shard)
		<-r.Context().Done()
	case closed:
		s.note(shard)
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"id": id, "shard": shard, "outcome": "cancelled"})
	}
}

func (s *shards) note(shard uint32) {
	select {
	case s.written <- shard:
	default:
	}
}

func playShards(t *testing.T) (*shards, *client.Client) {
	t.Helper()
	s := &shards{closed: map[uint32]bool{}, written: make(chan uint32, 4)}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{
		Addrs: []string{server.URL}, MaxAttempts: 1, FixedAddrs: true, SingleCalls: true, // as in the demo
	})
	assert.NoError(t, err)
	return s, c
}

func TestOneProbeAShard(t *testing.T) {
	s, c := playShards(t)
	p, err := placeProbes(t.Context(), c, "p-", 4)
	assert.NoError(t, err)
	got, want := fmt.Sprint(p), "map[0:p-0 1:p-1 2:p-2 3:p-3]"
	assert.Equal(t, got, want)
	if err := p.cancel(t.Context(), c); err != nil || len(s.cancelled) != 4 {
		t.Errorf("cancelled %v, %v", s.cancelled, err)
	}
	if _, err := placeProbes(t.Context(), c, "p-", 5); err == nil {
		t.Error("found a fifth shard of four")
	}
}

func TestWritesAreAwaited(t *testing.T) {
	s, c := playShards(t)
	s.closed[2] = true
	opened := make(chan time.Time, 1)
	go func() {
		for range 3 { // these tries fail or hang
			<-s.written
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closed[2] = false
		opened <- time.Now()
	}()
	p := probes{1: "p-1", 2: "p-2"}
	at, err := p.awaitWrites(t.Context(), c, []uint32{1, 2})
	assert.NoError(t, err)
	if open := <-opened; at.Before(open) {
		t.Errorf("written %v before the shard took writes", open.Sub(at))
	}
}

func TestWritesThatNeverPass(t *testing.T) {
	s, c := playShards(t)
	s.closed[2] = true
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-s.written; cancel() }()
	_, err := (probes{2: "p-2"}).awaitWrites(ctx, c, []uint32{2})
	assert.Error(t, err, "no error")
}
