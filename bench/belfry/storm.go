package belfry

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

// stormConfig describes a storm and the nodes that it meets.
type stormConfig struct {
	URLs  []string // of the nodes
	Key   string   // of the namespace
	Storm subject.Storm
}

// ServeStorm runs the storm whose settings are the first line of in, until in ends.
func ServeStorm(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := bufio.NewReader(in)
	var cfg stormConfig
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
	g := &gale{stormConfig: cfg, begun: func() error { return write(out, "begun") }}
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
	stormConfig
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

// connection is one of the callers of a storm.
type connection struct {
	client *http.Client
	url    string // of its node
	again  request
}

// connections returns the callers, spread over the nodes, with the call that each makes again and again.
func (g *gale) connections(again func(i int) request) []connection {
	all := make([]connection, g.Storm.Connections)
	for i := range all {
		all[i] = connection{
			client: oneConnection(), url: g.URLs[i%len(g.URLs)], again: again(i),
		}
	}
	return all
}

// repeat calls without a pause from each connection, until the context ends.
func (g *gale) repeat(ctx context.Context, again func(i int) request) error {
	if err := g.begun(); err != nil {
		return err
	}
	_, err := loop.Closed(ctx, g.connections(again), loop.AnyNumber, loop.Forever,
		func(ctx context.Context, c connection, _ int) error { return g.call(ctx, c, c.again) })
	return err
}

// refusedPause is the pause after a refused call. A storm does not spare the service.
const refusedPause = 10 * time.Millisecond

// call makes a call. A refusal is no error: the service may refuse a storm.
func (g *gale) call(ctx context.Context, c connection, r request) error {
	req, err := http.NewRequestWithContext(ctx, r.method, c.url+r.path, bytes.NewReader(r.body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", r.media)
	req.Header.Set("Authorization", "Bearer "+g.Key)
	resp, err := c.client.Do(req)
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
		return loop.SleepUntil(ctx, time.Now().Add(refusedPause))
	}
	return fmt.Errorf("%s %s: %s", r.method, r.path, resp.Status)
}

// fillBatch is the number of tasks of a batch with which tasks for receivers are scheduled.
const fillBatch = 1000

// fill schedules the storm's tasks for a receiver in this process, which answers at once or never. Then it waits for
// the end of the context.
func (g *gale) fill(ctx context.Context, when string, answers bool) (err error) {
	url, stop, err := subject.Serve(ctx, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if !answers {
			<-r.Context().Done()
		}
	}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	rest := fmt.Sprintf(`%s,"target":{"url":%q}`, when, url)
	run := time.Now().UnixNano() // a later storm must not change the tasks of this one
	_, err = loop.Closed(ctx, g.connections(func(int) request { return request{} }),
		(g.Storm.Tasks+fillBatch-1)/fillBatch, loop.Forever, func(ctx context.Context, c connection, n int) error {
			prefix := fmt.Sprintf("%s-%d-%d-", g.Storm.Kind, run, n)
			return g.call(ctx, c, g.batch(prefix, min(fillBatch, g.Storm.Tasks-n*fillBatch), rest))
		})
	if err == nil {
		err = g.begun()
	}
	if err == nil {
		<-ctx.Done()
	}
	return err
}

// storming is a storm in a child process.
type storming struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startStorm starts the command with the arguments, whose program calls ServeStorm, and returns once the storm has
// begun. The storm ends with the context at the latest.
func startStorm(ctx context.Context, command []string, cfg stormConfig) (*storming, error) {
	settings, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	p := &storming{cmd: exec.CommandContext(ctx, "nice", append([]string{"-n", "19"}, command...)...)}
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if err := p.begin(settings); err != nil {
		_, ended := p.End()
		return nil, errors.Join(fmt.Errorf("beginning a storm: %w", err), ended)
	}
	return p, nil
}

func (p *storming) begin(settings []byte) error {
	if _, err := p.in.Write(append(settings, '\n')); err != nil {
		return err
	}
	_, err := p.out.ReadString('\n')
	return err
}

// End ends the storm, and returns the number of acknowledged tasks.
func (p *storming) End() (tasks int, err error) {
	err = p.in.Close()
	output, readErr := io.ReadAll(p.out)
	err = errors.Join(err, readErr, p.cmd.Wait())
	if err == nil {
		_, err = fmt.Sscan(strings.TrimSpace(string(output)), &tasks)
	}
	return tasks, err
}
