package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster"
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

// A node that finds the disk full while it opens its data waits as if it had found no room before.
func TestFullDiskWhileOpening(t *testing.T) {
	var free atomic.Uint64
	free.Store(60 << 20)
	n := waitingNode(t, &free)
	n.flags.minFreeDisk = "0"
	tries, opened := 0, new(cluster.Node)
	n.open = func(cfg cluster.Config) (*cluster.Node, error) {
		cfg.Registerer.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "left_behind"}))
		if tries++; free.Load() < 70<<20 {
			return nil, fmt.Errorf("journal: %w", syscall.ENOSPC)
		}
		return opened, nil
	}
	ended := make(chan error, 1)
	go func() { ended <- n.openCluster(t.Context(), cluster.Config{}) }()
	code, body := request(t, "GET", "http://"+n.listener.Addr().String()+"/healthz")
	if code != 503 || !strings.Contains(body, "60MiB are free") || !strings.Contains(body, "journal: no space left") {
		t.Errorf("%d %s", code, body)
	}
	free.Store(70 << 20)
	if err := <-ended; err != nil || n.cluster != opened || tries != 2 {
		t.Errorf("%v after %d tries", err, tries)
	}

	n.open = func(cluster.Config) (*cluster.Node, error) { return nil, syscall.EIO }
	if err := n.openCluster(t.Context(), cluster.Config{}); !errors.Is(err, syscall.EIO) {
		t.Errorf("another failure: %v", err)
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
