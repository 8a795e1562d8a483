package notify

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// record is a connection to a manager that keeps what it is told, and the state of the service.
type record struct {
	net.Conn
	mu    sync.Mutex
	told  []string
	away  bool
	state error
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away {
		return 0, errors.New("connection refused")
	}
	r.told = append(r.told, string(p))
	return len(p), nil
}

func (r *record) ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

func (r *record) set(away bool, state error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away, r.state = away, state
}

func (r *record) take() (told []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	told, r.told = r.told, nil
	return told
}

// TestFollow checks that the manager is told of the first readiness once, of each change of the state, and of a
// readiness that it missed.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &record{away: true}
		var following sync.WaitGroup
		following.Go(func() { (&Manager{r}).Follow(ctx, r.ready) })
		step := func(away bool, next error, want ...string) {
			t.Helper()
			synctest.Wait()
			r.set(away, next)
			<-time.After(period)
			synctest.Wait()
			if got := r.take(); len(got) != len(want) || len(got) > 0 && got[0] != want[0] ||
				len(got) > 1 && got[1] != want[1] {
				t.Errorf("told %q, want %q", got, want)
			}
		}
		waits := errors.New("two nodes\nare away")
		step(true, waits)
		step(false, waits, "STATUS=two nodes; are away")
		step(false, waits)
		step(true, nil)
		step(false, nil, "STATUS=ready", "READY=1")
		step(false, nil)
		step(false, waits, "STATUS=two nodes; are away")
		step(false, nil, "STATUS=ready")
		cancel()
		following.Wait()
	})
}

// TestSocket checks the datagrams at a socket.
func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	assert.NoError(t, err)
	defer func() { _ = listener.Close() }()
	m, err := Dial(path)
	assert.NoError(t, err)
	assert.NoError(t, m.Stop())
	b := make([]byte, 100)
	n, err := listener.Read(b)
	if err != nil || string(b[:n]) != "STOPPING=1\nSTATUS=stopping" {
		t.Errorf("%q, %v", b[:n], err)
	}
	if _, err := Dial(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a socket that is not there takes connections")
	}
}
