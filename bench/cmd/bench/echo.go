package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	echoCallers = 64
	echoFor     = 2 * time.Second
)

// echoRate returns how many requests a second a handler answers that only decodes and encodes a task. That is the upper
// bound for single calls on this machine, which also runs the callers.
func echoRate(ctx context.Context) (rate float64, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	server := &http.Server{Handler: http.HandlerFunc(echo), ReadHeaderTimeout: echoFor}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		closed := server.Close()
		if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
			err = errors.Join(err, failed)
		}
		err = errors.Join(err, closed)
	}()
	ctx, stop := context.WithTimeout(ctx, echoFor)
	defer stop()
	transport := &http.Transport{MaxIdleConnsPerHost: echoCallers}
	defer transport.CloseIdleConnections()
	var answered atomic.Int64
	var callers sync.WaitGroup
	began := time.Now()
	for range echoCallers {
		callers.Go(func() {
			for callEcho(ctx, transport, "http://"+listener.Addr().String()) == nil {
				answered.Add(1)
			}
		})
	}
	callers.Wait()
	if answered.Load() == 0 {
		return 0, errors.New("a handler that echoes does not answer")
	}
	return float64(answered.Load()) / time.Since(began).Seconds(), nil
}

// echoTask is as large as a task of the workloads.
var echoTask = `{"fire_at":"2026-11-22T10:00:00.123Z","payload":"` + strings.Repeat("x", 198) + `"}`

func callEcho(ctx context.Context, transport http.RoundTripper, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(echoTask))
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

func echo(w http.ResponseWriter, r *http.Request) {
	var task struct {
		FireAt  time.Time `json:"fire_at"`
		Payload string    `json:"payload"`
	}
	if err := json.NewDecoder(r.Body).Decode(&task); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// A write error is ignored: it means that the caller has gone.
	_ = json.NewEncoder(w).Encode(task)
}
