package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/disk"
)

// waitingNode is a node whose disk has as much room as the test says.
func waitingNode(t *testing.T, free *atomic.Uint64) *node {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return &node{
		flags: &serveFlags{data: filepath.Join(t.TempDir(), "data"), minFreeDisk: "10%"},
		log:   slog.New(slog.NewTextHandler(t.Output(), nil)), registry: prometheus.NewRegistry(), listener: l,
		space:  func() (disk.Space, error) { return disk.Space{Free: free.Load(), Total: 1000 << 20}, nil },
		failed: make(chan error, 2),
	}
}

func request(t *testing.T, method, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return exchange(t, req)
}

func exchange(t *testing.T, req *http.Request) (int, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// A node without room says so at its port, touches nothing, and goes on by itself, at the same port, when there is room.
func TestNodeWaitsForRoom(t *testing.T) {
	var free atomic.Uint64
	free.Store(49 << 20)
	n := waitingNode(t, &free)
	ended := make(chan error, 1)
	go func() { ended <- n.awaitRoom(t.Context()) }()
	url := "http://" + n.listener.Addr().String()
	for _, c := range [][2]string{{"GET", "/healthz"}, {"GET", "/readyz"}, {"PUT", "/v1/tasks/a"}, {"GET", "/v1/cluster"}} {
		code, body := request(t, c[0], url+c[1])
		var p struct{ Type, Detail string }
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Fatal(err, body)
		}
		if code != 503 || !strings.Contains(p.Detail, "49MiB are free") || !strings.Contains(p.Detail, "50MiB") {
			t.Errorf("%v: %d %s", c, code, body)
		}
	}
	if code, body := request(t, "GET", url+"/metrics"); code != 200 || !strings.Contains(body, "belfry_disk_low 1") {
		t.Errorf("metrics: %d\n%s", code, body)
	}
	if _, err := os.Stat(n.flags.data); !os.IsNotExist(err) {
		t.Errorf("the data folder was touched: %v", err)
	}
	free.Store(50 << 20)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	next := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })}
	defer func() { _ = next.Close() }()
	go n.serve(next, n.listener)
	if code, _ := request(t, "GET", url); code != http.StatusTeapot {
		t.Errorf("whoever serves the port next: %d", code)
	}
	select {
	case err := <-n.failed:
		t.Error(err)
	default:
	}
}

func TestNodeWithRoomDoesNotWait(t *testing.T) {
	var free atomic.Uint64
	free.Store(50 << 20)
	if err := waitingNode(t, &free).awaitRoom(t.Context()); err != nil {
		t.Error(err)
	}
	n := waitingNode(t, &free)
	n.flags.minFreeDisk = "lots"
	if err := n.awaitRoom(t.Context()); err == nil || !strings.Contains(err.Error(), "--min-free-disk") {
		t.Errorf("%v", err)
	}
}

// It can be stopped while it waits.
func TestWaitingNodeStops(t *testing.T) {
	var free atomic.Uint64
	n := waitingNode(t, &free)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.awaitRoom(ctx) }()
	if code, _ := request(t, "GET", "http://"+n.listener.Addr().String()+"/healthz"); code != 503 {
		t.Error(code)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
