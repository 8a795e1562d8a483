package faults

import (
	"bufio"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// A flood holds exactly as many connections as it is told, each with half a request, until its context ends.
func TestHalfSend(t *testing.T) {
	const n = 2*floodCallers + 3
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	assert.NoError(t, err)
	defer func() { _ = l.Close() }()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		halfSend(ctx, l.Addr().String(), n)
	}()
	var readers []*bufio.Reader
	for range n {
		conn, err := l.Accept()
		assert.NoError(t, err)
		defer func() { _ = conn.Close() }()
		r := bufio.NewReader(conn)
		if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "GET /healthz ") {
			t.Errorf("%q, %v", line, err)
		}
		readers = append(readers, r)
	}
	stop()
	<-done
	for _, r := range readers {
		if rest, err := r.ReadString(0); err == nil || rest != "Host: half\r\n" {
			t.Errorf("the rest of a request is %q, %v", rest, err)
		}
	}
}

// A damaged file differs in the part that the node must notice, and the file that an earlier start set aside is gone. A
// file without a record, and a missing one, stay as they are.
func TestSpoilFile(t *testing.T) {
	for name, files := range map[string][2]string{
		"audit/audit.jsonl": {"{\"id\":\"a-1\"}\n", ""}, "witness": {"belfryw", ""},
	} {
		for i, content := range files {
			path := filepath.Join(t.TempDir(), "file")
			if err := errors.Join(os.WriteFile(path, []byte(content), 0o600),
				os.WriteFile(path+setAside, []byte("old"), 0o600)); err != nil {
				t.Fatal(err)
			}
			spoiled, err := spoilFile(rand.New(rand.NewPCG(1, 1)), path, spoilers[name])
			if err != nil || spoiled != (i == 0) {
				t.Errorf("%s: spoiled %q: %v, %v", name, content, spoiled, err)
			}
			now, err := os.ReadFile(path)
			_, aside := os.Stat(path + setAside)
			if err != nil || (string(now) != content) != spoiled || (aside != nil) != spoiled {
				t.Errorf("%s: %q is now %q, %v; aside: %v", name, content, now, err, aside)
			}
		}
	}
	missing := filepath.Join(t.TempDir(), "none")
	if spoiled, err := spoilFile(nil, missing, nil); spoiled || err != nil {
		t.Errorf("%v, %v", spoiled, err)
	}
}

// A kept connection takes one request after the other.
func TestKeptConnection(t *testing.T) {
	from := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if from += r.RemoteAddr + r.URL.Path + " "; r.URL.Path == "/readyz" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	k, err := keep(t.Context(), server.Listener.Addr().String())
	assert.NoError(t, err)
	here := k.LocalAddr().String()
	if a, b := k.get("/healthz"), k.get("/readyz"); a != 200 || b != 503 || from != here+"/healthz "+here+"/readyz " {
		t.Errorf("%d, %d, from %q", a, b, from)
	}
	if err := k.Close(); err != nil || k.get("/healthz") != 0 {
		t.Errorf("an answer after the end, or %v", err)
	}
}

// TestSpoilStartsTheNodeAgain checks that a node whose file cannot be damaged is started again all the same.
func TestSpoilStartsTheNodeAgain(t *testing.T) {
	gated.Need(t, gated.Real)
	localtest.Need(t)
	s, err := stand.Open(t.Context(), stand.Config{Binary: localtest.Build(t), Dir: t.TempDir(), Nodes: 1, Shards: 1})
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.Equal(t, s.Close(), nil)
	})
	nodes := s.Names()
	// A folder that is not empty is in the place of the file that an earlier start set aside.
	assert.NoError(t, os.MkdirAll(filepath.Join(s.Data(nodes[0]), "witness"+setAside, "full"), 0o700))
	seed := uint64(0) // the first one that chooses the last file, which is the witness
	for rand.New(rand.NewPCG(seed, 0)).IntN(len(spoilers)) != len(spoilers)-1 {
		seed++
	}
	on := Target{Stand: s, Recorder: history.NewRecorder(nil), Rand: rand.New(rand.NewPCG(seed, 0))}
	err = (&striking{Target: on, ctx: t.Context(), kind: DamagedFile}).spoil(nodes)
	if err == nil || !s.Runs(nodes[0]) {
		t.Errorf("the node runs: %v; %v", s.Runs(nodes[0]), err)
	}
	if f := on.Recorder.History().Faults; len(f) != 1 || f[0].Mended == 0 {
		t.Errorf("the fault is recorded as %+v", f)
	}
}
