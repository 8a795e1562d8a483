package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

const (
	echoCallers = 64
	echoFor     = 2 * time.Second
)

// echoRate returns how many requests a second a handler answers that only decodes and encodes a task. That is the upper
// bound for single calls on this machine, which also runs the callers.
func echoRate(ctx context.Context) (rate float64, err error) {
	url, stop, err := subject.Serve(ctx, http.HandlerFunc(echo))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	transport := &http.Transport{MaxIdleConnsPerHost: echoCallers}
	defer transport.CloseIdleConnections()
	d, err := loop.Closed(ctx, make([]struct{}, echoCallers), loop.AnyNumber, echoFor,
		func(ctx context.Context, _ struct{}, _ int) error { return callEcho(ctx, transport, url) })
	return float64(d.Done) / d.Elapsed.Seconds(), err
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
