package storm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/belfryhq/belfry/bench/subject"
)

// Config describes a storm and the nodes that it meets.
type Config struct {
	URLs  []string // of the nodes
	Key   string   // of the namespace
	Storm subject.Storm
}

// Serve runs the storm whose Config is the first line of in, until in ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := bufio.NewReader(in)
	var cfg Config
	first, err := lines.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(first, &cfg)
	}
	if err != nil {
		return fmt.Errorf("reading the storm's settings: %w", err)
	}
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, lines) // its end is the end of the storm, however it comes
	}()
	g := &gale{Config: cfg, begun: func() error { return write(out, "begun") }}
	if err := g.run(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	return write(out, g.done.Load())
}

func write(out io.Writer, v any) error {
	_, err := fmt.Fprintln(out, v)
	return err
}

// gale is a storm under way.
type gale struct {
	Config
	begun func() error
	done  atomic.Int64 // tasks acknowledged
}

func (g *gale) run(ctx context.Context) error {
	switch s := g.Storm; s.Kind {
	case subject.StormBatches:
		return g.repeat(ctx, func(i int) request { return g.batch(fmt.Sprint("batch-", i, "-"), s.Batch, `"delay":"24h"`) })
	case subject.StormCalls:
		return g.repeat(ctx, g.put)
	case subject.StormDue:
		return g.fill(ctx, `"fire_at":"`+s.At.UTC().Format(time.RFC3339Nano)+`"`, true)
	case subject.StormSilent:
		return g.fill(ctx, `"delay":"0s"`, false)
	default:
		return fmt.Errorf("there is no storm %q", s.Kind)
	}
}

// request is a call that a connection makes again and again.
type request struct {
	method, path, media string
	body                []byte
	tasks               int
}

func (g *gale) put(i int) request {
	body := fmt.Appendf(nil, `{"delay":"24h","payload":%s}`, g.payload())
	return request{http.MethodPut, fmt.Sprint("/v1/tasks/call-", i), "application/json", body, 1}
}

// batch makes a batch of tasks; rest is their members beside id and payload.
func (g *gale) batch(prefix string, tasks int, rest string) request {
	var body []byte
	payload := g.payload()
	for i := range tasks {
		body = fmt.Appendf(body, `{"op":"schedule","id":"%s%d",%s,"payload":%s}`+"\n", prefix, i, rest, payload)
	}
	return request{http.MethodPost, "/v1/batch", "application/x-ndjson", body, tasks}
}

func (g *gale) payload() string { return `"` + strings.Repeat("x", max(g.Storm.Payload-2, 0)) + `"` }

// repeat calls without a pause from each connection, until the context ends.
func (g *gale) repeat(ctx context.Context, each func(i int) request) error {
	if err := g.begun(); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range g.Storm.Connections {
		caller, r := newCaller(), each(i)
		url := g.URLs[i%len(g.URLs)]
		group.Go(func() error {
			for ctx.Err() == nil {
				if err := g.call(ctx, caller, url, r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// newCaller returns a client with one connection.
func newCaller() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1, MaxIdleConnsPerHost: 1, DisableCompression: true}}
}

// refusedPause is the pause after a refused call. A storm does not spare the service.
const refusedPause = 10 * time.Millisecond

// call makes a call. A refusal is no error: the service may refuse a storm.
func (g *gale) call(ctx context.Context, caller *http.Client, url string, r request) error {
	req, err := http.NewRequestWithContext(ctx, r.method, url+r.path, bytes.NewReader(r.body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", r.media)
	req.Header.Set("Authorization", "Bearer "+g.Key)
	resp, err := caller.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	switch {
	case resp.StatusCode < http.StatusMultipleChoices:
		g.done.Add(int64(r.tasks))
		return nil
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusInternalServerError:
		return pause(ctx, refusedPause)
	}
	return fmt.Errorf("%s %s: %s", r.method, r.path, resp.Status)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// fillBatch is the number of tasks of a batch with which tasks for receivers are scheduled.
const fillBatch = 1000

// fill schedules the storm's tasks for a receiver in this process, and then waits for the end of the context.
func (g *gale) fill(ctx context.Context, when string, answers bool) error {
	url, stop, err := receive(ctx, answers)
	if err != nil {
		return err
	}
	defer stop()
	if err := g.fillWith(ctx, fmt.Sprintf(`%s,"target":{"url":%q}`, when, url)); err != nil {
		return err
	}
	if err := g.begun(); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func (g *gale) fillWith(ctx context.Context, rest string) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	run := time.Now().UnixNano() // a later storm must not change the tasks of this one
	for i := range g.Storm.Connections {
		caller, url := newCaller(), g.URLs[i%len(g.URLs)]
		group.Go(func() error {
			for {
				n := int(next.Add(1) - 1)
				if n*fillBatch >= g.Storm.Tasks {
					return nil
				}
				r := g.batch(fmt.Sprintf("%s-%d-%d-", g.Storm.Kind, run, n), min(fillBatch, g.Storm.Tasks-n*fillBatch), rest)
				if err := g.call(ctx, caller, url, r); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// receive starts a receiver on loopback, which answers at once or never.
func receive(ctx context.Context, answers bool) (url string, stop func(), err error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) {
			if !answers {
				<-r.Context().Done()
			}
		})}
	go func() { _ = server.Serve(listener) }() // it ends with Close
	return "http://" + listener.Addr().String() + "/", func() { _ = server.Close() }, nil
}
