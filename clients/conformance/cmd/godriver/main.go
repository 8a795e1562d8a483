// Command godriver is the driver of the Go client for the conformance suite: see clients/conformance/README.md.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/client/webhook"
)

// with holds the arguments of a call by their names.
type with map[string]json.RawMessage

// arg returns an argument, or the zero value if it is absent.
func arg[T any](w with, name string) (v T) {
	if text, ok := w[name]; ok {
		if err := json.Unmarshal(text, &v); err != nil {
			panic(fmt.Errorf("%s: %w", name, err))
		}
	}
	return v
}

// text returns an argument that is a string, or "".
func (w with) text(name string) string { return arg[string](w, name) }

func (w with) span(name string) time.Duration { return span(w.text(name)) }

func span(text string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := client.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

// body and query return the members of the body and of the query.
func (w with) body() with  { return arg[with](w, "body") }
func (w with) query() with { return arg[with](w, "query") }

func (w with) options() (opts []client.Option) {
	if key := w.text("key"); key != "" {
		opts = append(opts, client.WithKey(key))
	}
	if match := strings.Trim(string(w["if_match"]), `"`); match != "" {
		var revision uint64
		if _, err := fmt.Sscan(match, &revision); err != nil {
			panic(err)
		}
		opts = append(opts, client.IfRevision(revision))
	}
	if w.text("if_none_match") != "" {
		opts = append(opts, client.IfAbsent())
	}
	return opts
}

// driver holds the clients and verifiers by the names that the steps give them.
type driver struct {
	mu        sync.Mutex
	clients   map[string]*client.Client
	verifiers map[string]*webhook.Verifier
}

// k is a call of the suite on a client.
type k struct {
	with
	ctx context.Context
	c   *client.Client
}

// request is one line of the harness.
type request struct {
	ID     int    `json:"id"`
	Call   string `json:"call"`
	Client string `json:"client"`
	With   with   `json:"with"`
}

func main() {
	d := &driver{clients: map[string]*client.Client{}, verifiers: map[string]*webhook.Verifier{}}
	in, out := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	var mu sync.Mutex // guards out
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return // the harness has no more calls
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			panic(err)
		}
		answer := func() {
			got := map[string]any{"id": r.ID}
			result, err := d.answer(r)
			if got["result"] = result; err != nil {
				got["error"] = describe(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if err := out.Encode(got); err != nil {
				panic(err)
			}
		}
		if r.Call == "open" || r.Call == "receiver" { // the next call needs it
			answer()
		} else {
			go answer()
		}
	}
}

func (d *driver) answer(r request) (result any, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if after := r.With.span("cancel_after"); after > 0 {
		defer time.AfterFunc(after, cancel).Stop()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch r.Call {
	case "open":
		return nil, d.open(r.Client, r.With)
	case "receiver":
		return nil, d.receiver(r.Client, r.With)
	}
	c, v := d.clients[r.Client], d.verifiers[r.Client]
	d.mu.Unlock()
	defer d.mu.Lock()
	switch call := calls[r.Call]; {
	case r.Call == "verify":
		return verify(ctx, v, r.With)
	case call == nil:
		return nil, errors.New("the driver has no call " + r.Call)
	default:
		return call(&k{r.With, ctx, c})
	}
}

// describe returns an error in the form of the suite.
func describe(err error) map[string]any {
	got := map[string]any{"type": "connection", "committed": "no", "text": err.Error()}
	if errors.Is(err, client.ErrUnknown) {
		got["committed"] = "unknown"
	}
	var problem *client.Error
	switch {
	case errors.Is(err, context.Canceled):
		got["type"] = "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		got["type"] = "timeout"
	case errors.As(err, &problem) && problem.Status >= 300 && problem.Status < 400:
		got["type"] = "protocol"
	case errors.As(err, &problem):
		got["type"] = strings.TrimPrefix(problem.Type, "urn:belfry:problem:")
		for name, value := range map[string]any{
			"status": problem.Status, "field": problem.Field, "limit": problem.Limit, "quota": problem.Quota,
			"used": problem.Used, "state": problem.State, "attempts": problem.Attempts, "task": problem.Task,
			"schedule": problem.Schedule, "retry_after": problem.RetryAfter.Seconds(), "count": problem.Count,
		} {
			got[name] = value
		}
	}
	for reason, name := range map[error]string{
		webhook.ErrMalformed: "malformed", webhook.ErrSignature: "signature", webhook.ErrTimestamp: "timestamp",
		webhook.ErrStale: "stale",
	} {
		if errors.Is(err, reason) {
			got["type"] = name
		}
	}
	return got
}
