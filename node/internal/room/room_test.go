package room

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/memnet"
)

// callers makes calls to one address in memory.
type callers struct {
	client *http.Client
	url    string
}

// disk is a host with a disk of 1000 MiB.
type disk struct {
	headroom.Host
	free *atomic.Uint64
}

func (d disk) Space() (headroom.Space, error) {
	return headroom.Space{Free: d.free.Load(), Total: 1000 << 20}, nil
}

// gateOn returns a gate before a disk of 1000 MiB with the given free space, and its callers. It is to be called in a
// bubble.
func gateOn(t *testing.T, free *atomic.Uint64, reserve string) (*Gate, callers) {
	t.Helper()
	network := memnet.New()
	l, packets, err := network.Listen("127.0.0.1:0")
	assert.NoError(t, err)
	t.Cleanup(func() { _, _ = l.Close(), packets.Close() })
	transport := &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		return network.Dial(ctx, addr)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	parsed, err := headroom.ParseReserve(reserve)
	assert.NoError(t, err)
	return New(Config{
		Dir: "data", Reserve: parsed, Listener: l, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Host: disk{free: free},
		Handler: func(reason func() string, metrics prometheus.Gatherer) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
			mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, reason(), http.StatusServiceUnavailable)
			})
			return mux
		},
	}), callers{&http.Client{Transport: transport}, "http://" + l.Addr().String()}
}

func (c callers) get(t *testing.T, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+path, http.NoBody)
	assert.NoError(t, err)
	resp, err := c.client.Do(req)
	assert.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	assert.NoError(t, err)
	return resp.StatusCode, string(body)
}

// The gate answers with the reason, opens by itself when there is room, and leaves the port to the next server.
func TestGateWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Uint64
		free.Store(49 << 20)
		g, callers := gateOn(t, &free, "10%")
		ended := make(chan error, 1)
		go func() { ended <- g.Await(t.Context()) }()
		if code, body := callers.get(t, ""); code != 503 || !strings.Contains(body, "49MiB are free") || !strings.Contains(body, "50MiB") {
			t.Errorf("%d %s", code, body)
		}
		if code, body := callers.get(t, "/metrics"); code != 200 || !strings.Contains(body, "belfry_disk_low 1") {
			t.Errorf("metrics: %d\n%s", code, body)
		}
		free.Store(50 << 20)
		assert.NoError(t, <-ended)
		next := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })}
		served := make(chan error, 1)
		go func() { served <- next.Serve(g.cfg.Listener) }()
		code, _ := callers.get(t, "")
		assert.Equal(t, code, http.StatusTeapot, "the next server of the port")
		assert.ErrorIs(t, errors.Join(next.Close(), <-served), http.ErrServerClosed)
	})
}

func TestGateWithRoomIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Uint64
		free.Store(50 << 20)
		g, _ := gateOn(t, &free, "10%")
		assert.Equal(t, g.Await(t.Context()), nil)
	})
}

// A disk that turns out to be full while the data is opened makes the gate wait, too.
func TestFullDiskWhileOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Uint64
		free.Store(60 << 20)
		g, callers := gateOn(t, &free, "0")
		attempts := 0
		open := func() error {
			if attempts++; free.Load() < 70<<20 {
				return fmt.Errorf("journal: %w", syscall.ENOSPC)
			}
			return nil
		}
		ended := make(chan error, 1)
		go func() { ended <- g.Open(t.Context(), open) }()
		code, body := callers.get(t, "")
		if code != 503 || !strings.Contains(body, "60MiB are free") || !strings.Contains(body, "journal: no space left") {
			t.Errorf("%d %s", code, body)
		}
		free.Store(70 << 20)
		if err := <-ended; err != nil || attempts != 2 {
			t.Errorf("%v after %d attempts", err, attempts)
		}
		err := g.Open(t.Context(), func() error { return syscall.EIO })
		assert.ErrorIs(t, err, syscall.EIO, "another failure")
	})
}

func TestWaitEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Uint64
		g, callers := gateOn(t, &free, "10%")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- g.Await(ctx) }()
		code, _ := callers.get(t, "")
		assert.Equal(t, code, 503)
		cancel()
		assert.Equal(t, <-ended, nil)
	})
}

// A port that fails while the gate waits ends the wait with its error.
func TestLostPortEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Uint64
		g, _ := gateOn(t, &free, "10%")
		assert.NoError(t, g.cfg.Listener.Close())
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			synctest.Wait() // the port has failed
			cancel()
		}()
		assert.ErrorIs(t, g.Await(ctx), net.ErrClosed)
	})
}
