package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/memnet"
)

// listen serves on loopback as a node does, and returns the URL.
func (h *harness) listen(change ...func(*http.Server)) string {
	h.t.Helper()
	l := h.open()
	server := h.server.HTTPServer()
	for _, f := range change {
		f(server)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	h.t.Cleanup(func() {
		_ = server.Close() // open connections belong to the tests
		assert.ErrorIs(h.t, <-served, http.ErrServerClosed)
	})
	return "http://" + l.Addr().String()
}

// inMemory puts the server and its callers on a network in memory, for a bubble of testing/synctest. Tests of what
// becomes of bytes that nobody reads need the system's network.
func (h *harness) inMemory() *harness {
	h.network = memnet.New()
	return h
}

func (h *harness) open() net.Listener {
	h.t.Helper()
	var l net.Listener
	var err error
	if h.network == nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	} else {
		l, _, err = h.network.Listen("127.0.0.1:0")
	}
	assert.NoError(h.t, err)
	return l
}

// dialer returns the function by which an HTTP transport connects; nil: the system's.
func (h *harness) dialer() func(ctx context.Context, network, addr string) (net.Conn, error) {
	if h.network == nil {
		return nil
	}
	return func(ctx context.Context, _, addr string) (net.Conn, error) { return h.network.Dial(ctx, addr) }
}

// patientDial is the time in which a test on a connection ends.
const patientDial = 2 * time.Minute

// dial connects to a URL of listen.
func (h *harness) dial(url string) net.Conn {
	h.t.Helper()
	dial := h.dialer()
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	c, err := dial(h.t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	assert.NoError(h.t, err)
	h.t.Cleanup(func() { _ = c.Close() })
	assert.NoError(h.t, c.SetDeadline(time.Now().Add(patientDial)))
	return c
}

// connect listens, and returns a connection to the server.
func (h *harness) connect() net.Conn {
	h.t.Helper()
	return h.dial(h.listen())
}

func send(t testing.TB, c net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	assert.NoError(t, err)
}

func receive(t testing.TB, c net.Conn) answer {
	t.Helper()
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	assert.NoError(t, err)
	return read(t, r)
}

const batchHead = "POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n"

const putHead = "PUT /v1/tasks/a HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"

func TestBodyThatNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.BodyTimeout = 10 * time.Second }).inMemory()
		url := h.listen()
		for name, text := range map[string]string{
			"chunked": putHead + "Transfer-Encoding: chunked\r\n\r\n9\r\n{\"delay\":\r\n",
			"length":  putHead + "Content-Length: 100\r\n\r\n{\"delay\":",
			"nothing": putHead + "Content-Length: 100\r\n\r\n",
		} {
			c := h.dial(url)
			send(t, c, text)
			begun := time.Now()
			p := receive(t, c).mustProblem(t, 408, "")
			if p["limit"] != "10s" || time.Since(begun) != 10*time.Second {
				t.Errorf("%s: %v after %v", name, p, time.Since(begun))
			}
			if _, err := c.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("%s: the connection stays open: %v", name, err)
			}
		}
		h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`).mustStatus(t, 201)
	})
}

// TestBodyThatGoesOnAndOn checks that an overlong body is refused at the limit, and that a client that sends everything
// before it reads sees the reason.
func TestBodyThatGoesOnAndOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t).inMemory()
		url := h.listen()
		c := h.dial(url)
		send(t, c, putHead+"Transfer-Encoding: chunked\r\n\r\n")
		chunk := "10000\r\n" + strings.Repeat(" ", 0x10000) + "\r\n"
		for range 64 { // 4 MiB
			send(t, c, chunk)
		}
		receive(t, c).mustProblem(t, 413, "")

		c = h.dial(url)
		send(t, c, putHead+fmt.Sprintf("Content-Length: %d\r\n\r\n", 32<<20)+strings.Repeat(" ", 32<<20))
		receive(t, c).mustProblem(t, 413, "")

		c = h.dial(url)
		send(t, c, putHead+"Expect: 100-continue\r\nContent-Length: 1099511627776\r\n\r\n") // the server asks for none of it
		receive(t, c).mustProblem(t, 413, "")
	})
}

// TestRefusedStreamIsHeardOut checks the same over HTTP/2: some clients lose the answer of a stream that is reset right
// after it.
func TestRefusedStreamIsHeardOut(t *testing.T) {
	c := newHarness(t).connect()
	send(t, c, http2.ClientPreface)
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var head bytes.Buffer
	encoder := hpack.NewEncoder(&head)
	for _, field := range [][2]string{
		{":method", "PUT"}, {":scheme", "http"}, {":authority", "x"}, {":path", "/v1/tasks/a"}, {"content-type", jsonType},
		{"content-length", "1000000"},
	} {
		mustDo(t, encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
	}
	mustDo(t, f.WriteSettings())
	mustDo(t, f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndHeaders: true}))
	h := await[*http2.MetaHeadersFrame](t, f)
	assert.MustEqual(t, h.PseudoValue("status"), "413", "answered %v", h.Fields)
	for i := range 64 { // most of it waits for windows that open only while the server reads
		mustDo(t, f.WriteData(1, i == 63, make([]byte, 1000000/64)))
		await[*http2.WindowUpdateFrame](t, f)
	}
	for !await[*http2.DataFrame](t, f).StreamEnded() {
	}
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	assert.NoError(t, err)
}

// await reads frames until one of type F comes. A reset of the stream fails the test.
func await[F http2.Frame](t *testing.T, f *http2.Framer) F {
	t.Helper()
	for {
		frame, err := f.ReadFrame()
		mustDo(t, err)
		if wanted, ok := frame.(F); ok {
			return wanted
		}
		if reset, ok := frame.(*http2.RSTStreamFrame); ok {
			t.Fatalf("reset with %v", reset.ErrCode)
		}
	}
}

// TestRefusalsDoNotWaitForTheBody checks that a refusal that does not depend on the body is sent at once, even if the
// body never comes.
func TestRefusalsDoNotWaitForTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t).inMemory()
		url := h.listen()
		for head, status := range map[string]int{
			"PUT /v1/tasks/-a HTTP/1.1\r\nContent-Type: application/json\r\n": 400,
			"PUT /nowhere HTTP/1.1\r\nContent-Type: application/json\r\n":     404,
			"POST /v1/tasks/a HTTP/1.1\r\nContent-Type: application/json\r\n": 405,
			"PUT /v1/tasks/a HTTP/1.1\r\nContent-Type: text/plain\r\n":        415,
			"POST /v1/batch HTTP/1.1\r\nContent-Type: text/plain\r\n":         415,
		} {
			c := h.dial(url)
			begin := time.Now()
			send(t, c, head+"Host: x\r\nContent-Length: 1000\r\n\r\n{")
			if a := receive(t, c); a.StatusCode != status || a.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%q: %d %s", head, a.StatusCode, a.text)
			}
			assert.Equal(t, time.Since(begin), 0, "%q", head)
		}
	})
}

func TestIdleConnectionsDisturbNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t).inMemory()
		url := h.listen()
		var conns []net.Conn
		for i := range 1000 {
			c := h.dial(url)
			conns = append(conns, c)
			if i%2 == 0 {
				send(t, c, putHead) // the head is never finished
			}
		}
		r, err := h.client("HTTP/1.1").Get(url + "/healthz")
		assert.NoError(t, err)
		read(t, r).mustStatus(t, 200)
		c := conns[0]
		send(t, c, "Content-Length: 14\r\n\r\n{\"delay\":\"1h\"}")
		receive(t, c).mustStatus(t, 201)
	})
}

// versions are the versions of HTTP.
var versions = []string{"HTTP/1.1", "HTTP/2.0"}

// client returns a client that speaks one version of HTTP with the server.
func (h *harness) client(version string) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(version == "HTTP/1.1")
	protocols.SetUnencryptedHTTP2(version == "HTTP/2.0")
	transport := &http.Transport{Protocols: protocols, DialContext: h.dialer()}
	h.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestBatchIsFullDuplex checks that each line is answered before the next one is sent, over both versions of HTTP.
func TestBatchIsFullDuplex(t *testing.T) {
	for _, proto := range versions {
		t.Run(proto, func(t *testing.T) {
			h := newHarness(t)
			url := h.listen()
			client := h.client(proto)
			body, w := io.Pipe()
			r, err := client.Post(url+"/v1/batch", ndjsonType, body)
			assert.NoError(t, err)
			defer r.Body.Close()
			assert.MustEqual(t, r.Proto, proto, "spoke")
			lines := bufio.NewReader(r.Body)
			for i := range 50 {
				if _, err := fmt.Fprintf(w, `{"op":"schedule","id":"t%d","delay":"1h"}`+"\n", i); err != nil {
					t.Fatal(err)
				}
				line, err := lines.ReadString('\n')
				if want := fmt.Sprintf(`{"id":"t%d","status":201,"revision":%d}`+"\n", i, i+1); err != nil || line != want {
					t.Fatalf("%q, %v", line, err)
				}
			}
			assert.NoError(t, w.Close())
			if rest, err := io.ReadAll(lines); err != nil || len(rest) != 0 {
				t.Fatalf("%q, %v", rest, err)
			}
		})
	}
}

func TestSingleCallsOverBothVersions(t *testing.T) {
	for _, proto := range versions {
		t.Run(proto, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t).inMemory()
				url, client := h.listen(), h.client(proto)
				for range 3 {
					r, err := client.Post(url+"/v1/tasks", jsonType, strings.NewReader(`{"delay":"1h"}`))
					assert.NoError(t, err)
					read(t, r).mustStatus(t, 201)
					r, err = client.Post(url+"/v1/tasks", jsonType, strings.NewReader(strings.Repeat(" ", 600<<10)))
					assert.NoError(t, err)
					read(t, r).mustProblem(t, 413, "")
				}
				body, w := io.Pipe()
				defer w.Close()
				r, err := client.Post(url+"/v1/tasks", jsonType, body)
				assert.NoError(t, err)
				read(t, r).mustProblem(t, 408, "")
			})
		})
	}
}

// TestBatchOfAClientThatReadsLate checks that a client that sends a whole batch before it reads gets all answers.
func TestBatchOfAClientThatReadsLate(t *testing.T) {
	h := newHarness(t)
	h.fake.do = func(_ context.Context, cmds []*fsmpb.Command) []task.Reply { return okReplies(cmds) }
	c := h.connect()
	const lines = 150_000
	var body strings.Builder
	for i := range lines {
		fmt.Fprintf(&body, `{"op":"fire","id":"some-longish-task-name-%08d"}`+"\n", i)
	}
	send(t, c, fmt.Sprintf("POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
		ndjsonType, body.Len()))
	send(t, c, body.String())
	assert.Equal(t, strings.Count(receive(t, c).text, "\n"), lines, "answers")
}

func TestBatchOfAClientThatLeaves(t *testing.T) {
	h := newHarness(t)
	entered, left := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	h.fake.do = func(ctx context.Context, cmds []*fsmpb.Command) []task.Reply {
		once.Do(func() { close(entered) })
		<-ctx.Done()
		left <- context.Cause(ctx)
		return okReplies(cmds)
	}
	c := h.connect()
	send(t, c, batchHead+"Transfer-Encoding: chunked\r\n\r\n")
	send(t, c, "17\r\n{\"op\":\"fire\",\"id\":\"a\"}\n\r\n")
	<-entered
	assert.NoError(t, c.Close())
	if err := <-left; errors.Is(err, context.DeadlineExceeded) {
		t.Error("the commit waited for its time, not for its client")
	}
}

func TestBatchAnswersExpectContinue(t *testing.T) {
	c := newHarness(t, func(c *Config) { c.DevClock = nil }).connect() // without the header belfry-clock
	send(t, c,
		batchHead+"Expect: 100-continue\r\nContent-Length: 23\r\n\r\n")
	in := bufio.NewReader(c)
	if line, err := in.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q %v", line, err)
	}
	if line, err := in.ReadString('\n'); err != nil || line != "\r\n" {
		t.Fatalf("%q %v", line, err)
	}
	send(t, c, `{"op":"fire","id":"ab"}`)
	r, err := http.ReadResponse(in, nil)
	assert.NoError(t, err)
	if answers := batchAnswers(t, read(t, r).text); len(answers) != 1 || answers[0].Status != 404 {
		t.Errorf("%+v", answers)
	}
}

// TestConnectionGoesOnAfterABatch checks that a connection serves the next call after a batch, with no rest of the
// stream on it.
func TestConnectionGoesOnAfterABatch(t *testing.T) {
	h := newHarness(t)
	url := h.listen()
	c := h.dial(url)
	in := bufio.NewReader(c)
	for range 3 {
		send(t, c,
			batchHead+"Content-Length: 23\r\n\r\n"+`{"op":"fire","id":"ab"}`)
		r, err := http.ReadResponse(in, nil)
		assert.NoError(t, err)
		answers := batchAnswers(t, read(t, r).text)
		assert.MustEqual(t, len(answers), 1, "%+v", answers)
		send(t, c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		r, err = http.ReadResponse(in, nil)
		assert.NoError(t, err)
		read(t, r).mustStatus(t, 200)
	}
}

// TestTimeoutsKeepToThemselves checks that the timeout of single calls does not bound a stream, and that the timeouts
// for lines and bodies do not bound a commit.
func TestTimeoutsKeepToThemselves(t *testing.T) {
	for _, proto := range versions {
		t.Run(proto, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, func(c *Config) { c.BatchIdle, c.BodyTimeout = 2*time.Second, 2*time.Second }).inMemory()
				client := h.client(proto)
				h.fake.do = func(ctx context.Context, cmds []*fsmpb.Command) []task.Reply {
					select {
					case <-time.After(4 * time.Second):
						return nil
					case <-ctx.Done():
						return []task.Reply{{Err: ctx.Err()}}
					}
				}
				url := h.listen(func(s *http.Server) { s.WriteTimeout = 3 * time.Second })
				r, err := client.Post(url+"/v1/batch", ndjsonType, strings.NewReader(`{"op":"schedule","id":"a","delay":"1h"}`))
				assert.NoError(t, err)
				if answers := batchAnswers(t, read(t, r).text); len(answers) != 1 || answers[0].Status != 201 {
					t.Errorf("%+v", answers)
				}
				url = h.listen()
				r, err = client.Post(url+"/v1/tasks", jsonType, strings.NewReader(`{"delay":"1h"}`))
				assert.NoError(t, err)
				read(t, r).mustStatus(t, 201)
			})
		})
	}
}
