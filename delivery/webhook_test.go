package delivery

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/memnet"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func newWebhook(t testing.TB, change ...func(*Config)) *Webhook {
	t.Helper()
	cfg := Config{AllowCIDRs: loopback, Version: "1.2.3"}
	for _, c := range change {
		c(&cfg)
	}
	w, err := New(cfg)
	assert.NoError(t, err)
	t.Cleanup(w.Close)
	return w
}

func attemptOf(url string, change ...func(*fsmpb.Task)) task.Attempt {
	due := &fsmpb.Task{
		Id:        "order-1042-close",
		Spec:      &fsmpb.Spec{Payload: []byte(`{"order": 1042}`), Target: &fsmpb.Target{Url: url}},
		FireAtMs:  time.Date(2026, 11, 21, 10, 0, 0, 7e6, time.UTC).UnixMilli(),
		Attempts:  2,
		Fence:     8842,
		WebhookId: "msg_5-8841-1",
	}
	for _, c := range change {
		c(due)
	}
	return task.Attempt{Task: due, Timeout: 10 * time.Second}
}

// world is a network in memory with receivers, in a bubble of testing/synctest.
type world struct {
	*testing.T
	network *memnet.Network
}

// simulate runs a test in a bubble.
func simulate(t *testing.T, test func(t world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { <-time.After(time.Second) }) // last: the clock stands after it, and receivers look at it
		test(world{t, memnet.New()})
	})
}

// webhook is newWebhook on the network.
func (w world) webhook(change ...func(*Config)) *Webhook {
	w.Helper()
	return newWebhook(w, append(change, func(c *Config) { c.Network = w.network })...)
}

func (w world) open() net.Listener {
	w.Helper()
	l, _, err := w.network.Listen("127.0.0.1:0")
	assert.NoError(w, err)
	return l
}

// listen is the function of this name on the network.
func (w world) listen(handle func(net.Conn)) string {
	w.Helper()
	l := w.open()
	accept(w, l, handle)
	return l.Addr().String()
}

// serveRaw is the function of this name on the network.
func (w world) serveRaw(speak func(net.Conn)) string {
	w.Helper()
	return "http://" + w.listen(afterRequest(speak))
}

// serve is the function of this name on the network.
func (w world) serve(h http.HandlerFunc) string {
	w.Helper()
	s := &httptest.Server{Listener: w.open(), Config: &http.Server{Handler: h}}
	s.Start()
	w.Cleanup(s.Close)
	return s.URL
}

// serve starts a receiver and returns its URL.
func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// serveRaw starts a receiver that speaks TCP. speak gets each connection after its request has been read whole, and the
// connection is closed when speak returns.
func serveRaw(t testing.TB, speak func(net.Conn)) string {
	t.Helper()
	return "http://" + listen(t, afterRequest(speak))
}

// afterRequest returns a function that calls speak with a connection whose request has been read whole.
func afterRequest(speak func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err == nil {
			speak(c)
		}
	}
}

// listen accepts TCP connections on loopback and calls handle for each in a goroutine of its own. All of them end with
// the test.
func listen(t testing.TB, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err)
	accept(t, l, handle)
	return l.Addr().String()
}

func accept(t testing.TB, l net.Listener, handle func(net.Conn)) {
	over := make(chan struct{})
	t.Cleanup(func() { close(over); _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			done := make(chan struct{})
			go func() { handle(c); close(done) }()
			go func() {
				select {
				case <-done:
				case <-over:
				}
				_ = c.Close()
			}()
		}
	}()
}

// untilGone blocks until the peer has closed or reset the connection.
func untilGone(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func write(w io.Writer, s string) { _, _ = io.WriteString(w, s) }

// answer returns a receiver that sends the same reply to every request.
func answer(status int, header map[string]string, body string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		for name, value := range header {
			rw.Header().Set(name, value)
		}
		rw.WriteHeader(status)
		write(rw, body)
	}
}

func TestPayloadArrivesByteForByte(t *testing.T) {
	payloads := map[string][]byte{
		"json with odd spacing": []byte("{ \"a\" :1,\n\"a\":2.50e0 }"),
		"bytes":                 {0, 0xff, '\r', '\n', 0x80, 0},
		"largest":               []byte(strings.Repeat("x", task.MaxPayloadBytes)),
		"none":                  nil,
	}
	got := make(chan []byte, 1)
	method := make(chan string, 1)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		method <- r.Method
		got <- body
	})
	w := newWebhook(t)
	for name, payload := range payloads {
		t.Run(name, func(t *testing.T) {
			out := w.Deliver(t.Context(), attemptOf(url, func(task *fsmpb.Task) { task.Spec.Payload = payload }))
			if !out.Delivered || out.Error != "" {
				t.Fatalf("outcome %+v", out)
			}
			assert.Equal(t, <-method, http.MethodPost, "method")
			if body := <-got; string(body) != string(payload) {
				t.Errorf("got %d bytes, sent %d, or other ones", len(body), len(payload))
			}
		})
	}
}

func TestConnectionsAreKept(t *testing.T) {
	replies := map[string]http.HandlerFunc{
		"204":           answer(204, nil, ""),
		"small body":    answer(200, nil, "thanks"),
		"failure":       answer(500, nil, strings.Repeat("x", 3000)),
		"chunked reply": func(rw http.ResponseWriter, _ *http.Request) { rw.(http.Flusher).Flush(); write(rw, "later") },
	}
	for name, reply := range replies {
		t.Run(name, func(t *testing.T) {
			from := make(chan string, 10)
			url := serve(t, func(rw http.ResponseWriter, r *http.Request) {
				from <- r.RemoteAddr
				reply(rw, r)
			})
			w := newWebhook(t)
			for range 3 {
				w.Deliver(t.Context(), attemptOf(url))
			}
			if a, b, c := <-from, <-from, <-from; a != b || b != c {
				t.Errorf("came from %s, %s, %s", a, b, c)
			}
		})
	}
}

// TestMethods sends a task by each method. A GET has no body, and a queue's GET no task with a payload.
func TestMethods(t *testing.T) {
	got := make(chan string, 1)
	url := serve(t, func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		got <- fmt.Sprintf("%s %d bytes, %v", r.Method, len(body), err)
	})
	w := newWebhook(t)
	for method, want := range map[string]string{
		"": "POST 15 bytes, <nil>", "PUT": "PUT 15 bytes, <nil>", "PATCH": "PATCH 15 bytes, <nil>",
		"DELETE": "DELETE 15 bytes, <nil>",
	} {
		out := w.Deliver(t.Context(), attemptOf(url, func(task *fsmpb.Task) { task.Spec.Target.Method = method }))
		assert.Equal(t, out.Delivered, true, "%s: %+v", method, out)
		assert.Equal(t, <-got, want, "%s", method)
	}
	get := func(task *fsmpb.Task) { task.Spec.Target.Method = "GET" }
	out := w.Deliver(t.Context(), attemptOf(url, get, func(task *fsmpb.Task) { task.Spec.Payload = nil }))
	assert.Equal(t, out.Delivered, true, "%+v", out)
	assert.Equal(t, <-got, "GET 0 bytes, <nil>", "without a payload")
	out = w.Deliver(t.Context(), attemptOf(url, get))
	assert.Equal(t, out.Permanent, true, "%+v", out)
	assert.Equal(t, out.Error, "target.method is GET, and a GET carries no payload", "with a payload")
}

// A receiver that ends a kept connection after the request has the request once: whether it acted is unknown, and the
// next attempt is the queue's decision. The transport would repeat a GET by itself.
func TestGetIsSentOnce(t *testing.T) {
	requests := make(chan string, 9)
	addr := listen(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		for reply := "HTTP/1.1 204 No Content\r\n\r\n"; ; reply = "" {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			requests <- r.Method
			if reply == "" {
				return
			}
			write(c, reply)
		}
	})
	w := newWebhook(t)
	a := attemptOf("http://"+addr, func(task *fsmpb.Task) { task.Spec.Target.Method, task.Spec.Payload = "GET", nil })
	first, second := w.Deliver(t.Context(), a), w.Deliver(t.Context(), a)
	assert.Equal(t, first.Delivered, true, "%+v", first)
	assert.Equal(t, second.Delivered, false, "%+v", second)
	assert.Equal(t, len(requests), 2, "requests")
}

func TestClosed(t *testing.T) {
	w := newWebhook(t)
	w.Close()
	out := w.Deliver(t.Context(), attemptOf("http://127.0.0.1:1/"))
	if out.Delivered || out.Permanent || !strings.HasPrefix(out.Error, "aborted") {
		t.Errorf("outcome %+v", out)
	}
}

func TestTargetsThatNoRetryHelps(t *testing.T) {
	w := newWebhook(t)
	for name, a := range map[string]task.Attempt{
		"no target":  attemptOf("", func(task *fsmpb.Task) { task.Spec.Target = nil }),
		"no URL":     attemptOf(""),
		"not a URL":  attemptOf("http://[::1/?key=secret"),
		"bad scheme": attemptOf("ftp://127.0.0.1/?key=secret"),
		"no host":    attemptOf("http:///?key=secret"),
	} {
		t.Run(name, func(t *testing.T) {
			out := w.Deliver(t.Context(), a)
			if !out.Permanent || out.Error == "" || strings.Contains(out.Error, "secret") {
				t.Errorf("outcome %+v", out)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]Config{
		"negative timeout": {ConnectTimeout: -1},
		"negative pool":    {MaxIdle: -1},
		"invalid range":    {AllowCIDRs: []netip.Prefix{{}}},
	} {
		if w, err := New(cfg); err == nil {
			w.Close()
			t.Errorf("%s: no error", name)
		}
	}
}

func TestNoProxyFromTheEnvironment(t *testing.T) {
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("went through the proxy") })
	t.Setenv("HTTP_PROXY", proxy)
	t.Setenv("HTTPS_PROXY", proxy)
	url := serve(t, answer(200, nil, ""))
	w := newWebhook(t, func(c *Config) { c.Resolver = dnsServer(t, fixed("127.0.0.1")).resolver() })
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	if out := w.Deliver(t.Context(), attemptOf("http://shop.test:"+port)); !out.Delivered {
		t.Errorf("outcome %+v", out)
	}
	if w.transports.plain.Proxy != nil { // net/http reads the environment once per process, maybe before this test
		t.Error("the transport has a proxy")
	}
}

func TestCookiesAreNotKept(t *testing.T) {
	cookies := make(chan string, 2)
	url := serve(t, func(rw http.ResponseWriter, r *http.Request) {
		cookies <- r.Header.Get("Cookie")
		http.SetCookie(rw, &http.Cookie{Name: "a", Value: "b"})
	})
	w := newWebhook(t)
	for range 2 {
		w.Deliver(t.Context(), attemptOf(url))
		assert.Equal(t, <-cookies, "", "sent cookie")
	}
}

func TestCancelEndsTheAttemptAtOnce(t *testing.T) {
	simulate(t, func(t world) {
		arrived := make(chan struct{})
		gone := make(chan struct{})
		url := t.serveRaw(func(c net.Conn) {
			close(arrived)
			untilGone(c)
			close(gone)
		})
		w := t.webhook()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-arrived
			cancel()
		}()
		begun := time.Now()
		out := w.Deliver(ctx, attemptOf(url))
		if out.Delivered || out.Permanent || !strings.HasPrefix(out.Error, "aborted") {
			t.Errorf("outcome %+v", out)
		}
		assert.Equal(t, time.Since(begun), 0, "took")
		<-gone
	})
}
