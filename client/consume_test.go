package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// desk is a service with one queue, in memory. It streams its tasks as far as there is credit, and records settles.
type desk struct {
	t *testing.T

	mu      sync.Mutex
	moved   sync.Cond // on mu
	ready   []string
	credit  int
	most    int // the highest credit
	streams []string
	cut     bool                              // breaks the stream at the next write
	settled map[string][]string               // the verbs by receipt
	answer  func(verb, receipt string) string // for one receipt; nil or empty: 200
	hold    chan struct{}                     // if not nil, settles wait for it
	calls   int                               // settles
	refuse  func(host string) *http.Response  // refuses a stream; nil: no refusal
}

// newDesk returns a desk and its client.
func newDesk(t *testing.T, cfg Config) (*desk, *Client) {
	t.Helper()
	d := &desk{t: t, settled: map[string][]string{}}
	d.moved.L = &d.mu
	cfg.HTTPClient = &http.Client{Transport: d}
	if cfg.Addrs == nil {
		cfg.Addrs = []string{home}
	}
	c, err := New(cfg)
	assert.NoError(t, err)
	t.Cleanup(c.Close) // in the test's bubble
	return d, c
}

// put makes tasks due.
func (d *desk) put(ids ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ready = append(d.ready, ids...)
	d.moved.Broadcast()
}

func (d *desk) change(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
	d.moved.Broadcast()
}

// became returns the settles of all receipts.
func (d *desk) became() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, receipt := range slices.Sorted(maps.Keys(d.settled)) {
		all = append(all, receipt+": "+strings.Join(d.settled[receipt], ", "))
	}
	return strings.Join(all, "; ")
}

func (d *desk) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/settle") {
		return d.settle(r)
	}
	d.mu.Lock()
	d.streams = append(d.streams, r.URL.Host+"?"+r.URL.RawQuery)
	refuse := d.refuse
	d.credit = 0
	d.mu.Unlock()
	if refuse != nil {
		if resp := refuse(r.URL.Host); resp != nil {
			_ = r.Body.Close()
			return resp, nil
		}
	}
	out, w := io.Pipe()
	s := &deskStream{desk: d, out: w}
	go s.read(r.Body)
	go s.write()
	context.AfterFunc(r.Context(), func() {
		_ = w.CloseWithError(r.Context().Err())
		d.change(func() { s.over = true })
	})
	resp := respond(200, "")
	resp.Body = out
	return resp, nil
}

type deskStream struct {
	*desk
	out  *io.PipeWriter
	over bool // guarded by the desk's mutex
}

// read adds credit, and ends the stream when the consumer ends its lines.
func (s *deskStream) read(body io.Reader) {
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		var line struct{ Credit int }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			s.t.Errorf("%s: %v", lines.Text(), err)
		}
		s.change(func() {
			s.credit += line.Credit
			s.most = max(s.most, s.credit)
		})
	}
	s.change(func() { s.over = true })
}

func (s *deskStream) write() {
	for {
		id, err := s.next()
		if err != nil {
			_ = s.out.CloseWithError(err)
			return
		}
		const line = `{"task":{"id":%q,"payload":{"n":1},"receipt":%q,"attempt":1}}` + "\n"
		if _, err := fmt.Fprintf(s.out, line, id, id); err != nil {
			s.put(id)
			return
		}
	}
}

// next waits for a task and a credit.
func (s *deskStream) next() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for (s.credit == 0 || len(s.ready) == 0) && !s.cut && !s.over {
		s.moved.Wait()
	}
	switch {
	case s.over:
		return "", io.EOF
	case s.cut:
		s.cut = false
		return "", errors.New("connection reset")
	}
	id := s.ready[0]
	s.ready = s.ready[1:]
	s.credit--
	return id, nil
}

func (d *desk) settle(r *http.Request) (*http.Response, error) {
	var body struct {
		Ack, Release []string
		Nack         []struct{ Receipt, Delay, Reason string }
		Extend       []struct{ Receipt, Lease string }
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	_ = r.Body.Close()
	d.mu.Lock()
	d.calls++
	hold := d.hold
	d.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var results []string
	add := func(verb, receipt, what string) {
		result := ""
		if d.answer != nil {
			result = d.answer(verb, receipt)
		}
		if result == "" {
			d.settled[receipt] = append(d.settled[receipt], what)
			result = `"status":200`
		}
		results = append(results, fmt.Sprintf(`{"receipt":%q,"id":%q,%s}`, receipt, receipt, result))
	}
	for _, receipt := range body.Ack {
		add("ack", receipt, "ack")
	}
	for _, n := range body.Nack {
		add("nack", n.Receipt, strings.Join(strings.Fields("nack "+n.Delay+" "+n.Reason), " "))
	}
	for _, e := range body.Extend {
		add("extend", e.Receipt, "extend "+e.Lease)
	}
	for _, receipt := range body.Release {
		add("release", receipt, "release")
	}
	return respond(200, `{"results":[`+strings.Join(results, ",")+`]}`), nil
}

// consuming runs a consumer in a bubble. stop ends it, and returns Consume's error.
func consuming(t *testing.T, c *Client, o ConsumeOptions, handle Handler) (stop func() error) {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Consume(ctx, "q", o, handle) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// over stops a consumer, and fails the test if Consume returned an error.
func over(t *testing.T, stop func() error) {
	t.Helper()
	assert.Equal(t, stop(), nil)
}

func TestConsume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newDesk(t, Config{})
		var working, most, done atomic.Int32
		stop := consuming(t, c, ConsumeOptions{Concurrency: 5, Lease: time.Minute}, func(_ context.Context, task *Leased) error {
			most.Store(max(most.Load(), working.Add(1)))
			defer working.Add(-1)
			time.Sleep(time.Millisecond)
			if string(task.Payload) != `{"n":1}` || task.Receipt != task.ID || task.Attempt != 1 {
				t.Errorf("%+v", task)
			}
			done.Add(1)
			return nil
		})
		const tasks = 200
		for i := range tasks {
			d.put(fmt.Sprint("t", i))
		}
		time.Sleep(time.Second)
		over(t, stop)
		if done.Load() != tasks || most.Load() != 5 || d.most != 5 {
			t.Errorf("%d done, at most %d at once, credit %d", done.Load(), most.Load(), d.most)
		}
		if n := strings.Count(d.became(), ": ack"); n != tasks {
			t.Errorf("%d acks: %s", n, d.became())
		}
		assert.Equal(t, fmt.Sprint(d.streams), "[a:1?lease=1m0s]", "streams")
	})
}

// TestOutcomes checks that a handler's result decides on its task.
func TestOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newDesk(t, Config{})
		stop := consuming(t, c, ConsumeOptions{}, func(_ context.Context, task *Leased) error {
			switch task.ID {
			case "fails":
				return errors.New("no stock")
			case "later":
				return fmt.Errorf("closed: %w", RetryIn(time.Hour, errors.New("lunch")))
			case "back":
				return fmt.Errorf("not mine: %w", ErrRelease)
			case "panics":
				panic("oh")
			case "exits":
				runtime.Goexit()
			case "long":
				return errors.New(strings.Repeat("é", 400))
			}
			return nil
		})
		d.put("done", "fails", "later", "back", "panics", "exits", "long")
		synctest.Wait()
		over(t, stop)
		want := "back: release; done: ack; exits: nack the handler's goroutine has exited; fails: nack no stock; " +
			"later: nack 1h closed: lunch; long: nack " + strings.Repeat("é", 256) + "; panics: nack panic: oh"
		assert.Equal(t, d.became(), want, "became")
	})
}

// TestHandlerReplacesItsTask checks that the outcome of a handler that schedules its own task anew settles nothing, and
// is not logged.
func TestHandlerReplacesItsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newDesk(t, Config{})
		d.answer = func(string, string) string { return `"status":200,"outcome":"replaced"` }
		var logged bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- c.Consume(ctx, "q", ConsumeOptions{Logger: slog.New(slog.NewTextHandler(&logged, nil))},
				func(_ context.Context, task *Leased) error {
					if task.ID == "fails" {
						return errors.New("no stock")
					}
					return nil
				})
		}()
		d.put("done", "fails")
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil || logged.Len() > 0 || d.became() != "" {
			t.Errorf("%v, became %q, logged %s", err, d.became(), logged.String())
		}
	})
}

// TestLeasesAreExtended checks that a lease is extended while its handler runs, and no longer.
func TestLeasesAreExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newDesk(t, Config{})
		stop := consuming(t, c, ConsumeOptions{Lease: 30 * time.Second}, func(ctx context.Context, _ *Leased) error {
			time.Sleep(100 * time.Second)
			return ctx.Err()
		})
		d.put("slow")
		time.Sleep(10 * time.Minute)
		over(t, stop)
		got := strings.Split(d.became(), ", ")
		if n := len(got) - 1; n < 4 || n > 8 || got[n] != "ack" || got[1] != "extend 30s" {
			t.Errorf("became %v", got)
		}
	})
}

// TestLostLease checks that a handler learns of a lost lease: from the service, or when no extension succeeds.
func TestLostLease(t *testing.T) {
	for name, lose := range map[string]func(d *desk){
		"taken": func(d *desk) {
			d.answer = func(verb, _ string) string {
				if verb == "extend" {
					return `"status":409,"problem":{"type":"urn:belfry:problem:lease-ended","status":409}`
				}
				return ""
			}
		},
		"gone": func(d *desk) {
			d.answer = func(string, string) string {
				return `"status":404,"problem":{"type":"urn:belfry:problem:task-not-found","status":404}`
			}
		},
		"out of reach": func(d *desk) { d.hold = make(chan struct{}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, c := newDesk(t, Config{Timeout: time.Minute})
				d.change(func() { lose(d) })
				began, lost := time.Now(), time.Duration(0)
				stop := consuming(t, c, ConsumeOptions{Lease: 30 * time.Second}, func(ctx context.Context, _ *Leased) error {
					<-ctx.Done()
					lost = time.Since(began)
					assert.ErrorIs(t, context.Cause(ctx), ErrLeaseLost, "it ended because")
					return ctx.Err()
				})
				d.put("a")
				time.Sleep(5 * time.Minute)
				over(t, stop)
				if lost < 15*time.Second || lost > 35*time.Second {
					t.Errorf("known after %v", lost)
				}
			})
		})
	}
}

// TestConsumerStops checks that a stopped consumer takes no more tasks, lets its handlers end, and settles their
// outcomes.
func TestConsumerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newDesk(t, Config{})
		stop := consuming(t, c, ConsumeOptions{Concurrency: 3}, func(ctx context.Context, _ *Leased) error {
			time.Sleep(4 * time.Second)
			return ctx.Err()
		})
		d.put("a", "b", "c", "d")
		synctest.Wait()
		began := time.Now()
		over(t, stop)
		if took := time.Since(began); took != 4*time.Second || d.became() != "a: ack; b: ack; c: ack" {
			t.Errorf("after %v: %s", took, d.became())
		}
	})
}

// TestTaskThatComesTooLate checks that a task that arrives after the stop is given back.
func TestTaskThatComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newDesk(t, Config{})
		k := newConsumer(t.Context(), c.conn, "q", ConsumeOptions{}.withDefaults(), func(context.Context, *Leased) error {
			t.Error("the task is handled")
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		late := strings.NewReader(`{"heartbeat":"2026-11-21T10:00:00.000Z"}` + "\n" + `{"task":{"id":"late","receipt":"late"}}` + "\n")
		assert.Equal(t, k.readTasks(ctx, late), nil)
		if err := k.stop(); err != nil || d.became() != "late: release" {
			t.Errorf("%v: %s", err, d.became())
		}
		for _, bad := range []string{`{"task":{"id":1}}`, `{"task":{"id":"a"}`, `{"task":`, `no`, `{"problem":{"status":400}}`} {
			assert.Error(t, k.readTasks(ctx, strings.NewReader(bad+"\n")), "%s is taken", bad)
		}
	})
}

// TestGraceEnds checks that the context of late handlers ends, and that Consume leaves those behind that ignore it.
func TestGraceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newDesk(t, Config{})
		wake := make(chan struct{})
		stop := consuming(t, c, ConsumeOptions{Grace: 3 * time.Second}, func(ctx context.Context, task *Leased) error {
			if task.ID == "deaf" {
				<-wake
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		d.put("deaf", "listens")
		synctest.Wait()
		began := time.Now()
		err := stop()
		if err == nil || err.Error() != "consume q: 1 handlers have not ended within 3s" {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took != 4*time.Second || d.became() != "listens: release" {
			t.Errorf("after %v: %s", took, d.became())
		}
		close(wake)
		synctest.Wait()
	})
}

// TestConsumerGoesOnElsewhere checks that a broken stream is opened again through another node, and asks for the then
// free handlers.
func TestConsumerGoesOnElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newDesk(t, Config{Addrs: []string{"a:1", "b:1"}})
		var done atomic.Int32
		stop := consuming(t, c, ConsumeOptions{Concurrency: 4}, func(context.Context, *Leased) error {
			time.Sleep(time.Second)
			done.Add(1)
			return nil
		})
		for i := range 10 {
			d.put(fmt.Sprint("x", i), fmt.Sprint("y", i))
			synctest.Wait()
			d.change(func() { d.cut = true })
			time.Sleep(10 * time.Second)
		}
		over(t, stop)
		hosts := map[string]bool{}
		for i, s := range d.streams {
			hosts[s] = true
			if i > 0 && d.streams[i-1] == s {
				t.Errorf("the same node again: %v", d.streams)
			}
		}
		if done.Load() != 20 || len(d.streams) != 11 || len(hosts) != 2 || d.most > 4 {
			t.Errorf("%d done, streams %v, credit up to %d", done.Load(), d.streams, d.most)
		}
	})
}

// TestStreamIsRefused checks that a final refusal ends the consumer, and that other failures are waited out.
func TestStreamIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newDesk(t, Config{})
		nothing := func(context.Context, *Leased) error { return nil }
		n := 0
		d.refuse = func(string) *http.Response {
			if n++; n < 5 {
				return respond(503, `{"status":503}`)
			}
			return respond(400, `{"status":400,"field":"queue","detail":"is no name"}`)
		}
		err := c.Consume(t.Context(), "q", ConsumeOptions{Logger: slog.New(slog.DiscardHandler)}, nothing)
		var refusal *Error
		if !errors.As(err, &refusal) || refusal.Field != "queue" || n != 5 {
			t.Errorf("%v after %d tries", err, n)
		}
		for _, o := range []ConsumeOptions{{Concurrency: -1}, {Concurrency: 10001}, {Lease: time.Millisecond}, {Grace: -1}} {
			assert.Error(t, c.Consume(t.Context(), "q", o, nothing), "took %+v", o)
		}
	})
}

// TestOutcomesAreGathered checks that outcomes that come during a settle form the next one.
func TestOutcomesAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c := newDesk(t, Config{})
		d.hold = make(chan struct{})
		stop := consuming(t, c, ConsumeOptions{Concurrency: 10}, func(context.Context, *Leased) error { return nil })
		d.put("first")
		synctest.Wait()
		for i := range 50 {
			d.put(fmt.Sprint("t", i))
		}
		synctest.Wait()
		close(d.hold)
		synctest.Wait()
		if err := stop(); err != nil || d.calls != 2 || strings.Count(d.became(), "ack") != 51 {
			t.Errorf("%v, %d settles: %s", err, d.calls, d.became())
		}
	})
}
