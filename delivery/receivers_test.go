package delivery

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// TestReceivers lists the kinds of receivers that answer or break off, and the outcome of an attempt for each.
func TestReceivers(t *testing.T) {
	raw := func(reply string) func(*testing.T) string {
		return func(t *testing.T) string { return serveRaw(t, func(c net.Conn) { write(c, reply) }) }
	}
	answers := func(status int, header map[string]string, body string) func(*testing.T) string {
		return func(t *testing.T) string { return serve(t, answer(status, header, body)) }
	}
	const broken = "malformed answer, or one with a header over 64 KiB"
	const silent = "the receiver closed the connection without an answer"
	ok := task.Outcome{Delivered: true}
	fails := func(text string) task.Outcome { return task.Outcome{Error: text} }
	refused := func(text string) task.Outcome { return task.Outcome{Refused: true, Error: text} }
	tests := map[string]struct {
		receiver func(*testing.T) string
		want     task.Outcome
	}{
		"200":           {answers(200, nil, "fine"), ok},
		"202":           {answers(202, nil, ""), ok},
		"204":           {answers(204, nil, ""), ok},
		"299, odd name": {raw("HTTP/1.1 299 What\r\nContent-Length: 0\r\n\r\n"), ok},
		"HTTP/1.0":      {raw("HTTP/1.0 200 OK\r\n\r\nfine"), ok},
		"103, then 200": {raw("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), ok},

		"500":          {answers(500, nil, "it broke"), fails("500 Internal Server Error: it broke")},
		"503, empty":   {answers(503, nil, ""), fails("503 Service Unavailable")},
		"404":          {answers(404, nil, "<p>\n\tnot\x00here\n</p>"), refused("404 Not Found: <p> not here </p>")},
		"499, unknown": {answers(499, nil, "x"), refused("499: x")},
		"long text": {answers(500, nil, strings.Repeat("é", 900)),
			fails("500 Internal Server Error: " + strings.Repeat("é", 99))},
		"name not repeated": {raw("HTTP/1.1 500 \x1b[31mevil\r\nContent-Length: 0\r\n\r\n"),
			fails("500 Internal Server Error")},
		"410": {answers(410, nil, "left"), task.Outcome{Permanent: true, Refused: true, Error: "410 Gone: left"}},
		"101": {raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhello"),
			fails("101 Switching Protocols")},
		"302": {answers(302, map[string]string{"Location": "http://127.0.0.1:1/\u202e"}, ""),
			refused("302 Found: redirects are not followed (to http://127.0.0.1:1/)")},
		"304": {raw("HTTP/1.1 304 Not Modified\r\n\r\n"), refused("304 Not Modified")},

		"429 with Retry-After": {answers(429, map[string]string{"Retry-After": "120"}, "slow down"),
			task.Outcome{RetryAfter: 2 * time.Minute, Error: "429 Too Many Requests: slow down"}},
		"500 with Retry-After": {answers(500, map[string]string{"Retry-After": "999999999999999999999"}, ""),
			task.Outcome{RetryAfter: 24 * time.Hour, Error: "500 Internal Server Error"}},
		"302 with Retry-After": {answers(302, map[string]string{"Retry-After": "1"}, ""),
			task.Outcome{Refused: true, RetryAfter: time.Second, Error: "302 Found: redirects are not followed"}},
		"200 with Retry-After": {answers(200, map[string]string{"Retry-After": "1"}, ""), ok},

		"closes":        {raw(""), fails(silent)},
		"resets":        {receiverThatResets, fails("connection reset by the receiver")},
		"down":          {receiverThatIsDown, fails("connection refused")},
		"no HTTP":       {raw("SSH-2.0-OpenSSH_9.9\r\n"), fails(broken)},
		"binary":        {raw("\x16\x03\x01\x00\xff\x00\x00\n\n"), fails(broken)},
		"bad status":    {raw("HTTP/1.1 2OO OK\r\n\r\n"), fails(broken)},
		"bad header":    {raw("HTTP/1.1 200 OK\r\nno colon here\r\n\r\n"), fails(broken)},
		"bad length":    {raw("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"), fails(broken)},
		"two lengths":   {raw("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"), fails(broken)},
		"half a header": {raw("HTTP/1.1 200 OK\r\nX-A: b"), fails(broken)},
		"endless 1xx":   {receiverThatBombs("HTTP/1.1 103 Early Hints\r\nX-A: b\r\n\r\n"), fails(broken)},
		"header bomb":   {receiverThatBombs("X-A: " + strings.Repeat("b", 100) + "\r\n"), fails(broken)},
		"large header":  {raw("HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("b", 80<<10) + "\r\n\r\n"), fails(broken)},
		"one long line": {receiverThatBombs(strings.Repeat("b", 100)), fails(broken)},
		"short body":    {raw("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello"), ok},
		"bad chunk":     {raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), ok},
		"failed, short": {raw("HTTP/1.1 500 Oh\r\nContent-Length: 50\r\n\r\nhello"),
			fails("500 Internal Server Error: hello")},
		"too much":      {raw("HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 500 Oh\r\n\r\n"), ok},
		"reads nothing": {receiverThatReadsNothing, refused("413 Request Entity Too Large")},
		"speaks first":  {receiverThatSpeaksFirst, fails("500 Internal Server Error")},
		"TLS to no TLS": {receiverWithoutTLS,
			fails("TLS handshake failed: tls: first record does not look like a TLS handshake")},
		"unknown issuer": {receiverWithOwnCertificate,
			fails("TLS: certificate refused: x509: certificate signed by unknown authority")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := newWebhook(t).Deliver(t.Context(), attemptOf(test.receiver(t)))
			assert.Equal(t, out, test.want, "outcome")
			if len(out.Error) > task.MaxErrorBytes {
				t.Errorf("the error has %d bytes", len(out.Error))
			}
		})
	}
}

// TestRedirectsAreNotFollowed checks that no redirect is followed, to a private receiver or any other.
func TestRedirectsAreNotFollowed(t *testing.T) {
	private := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("followed") })
	w := newWebhook(t)
	for _, status := range []int{300, 301, 302, 303, 305, 307, 308} {
		for _, to := range []string{private, "//" + strings.TrimPrefix(private, "http://") + "/", "/again", "file:///etc/passwd"} {
			calls := 0
			url := serve(t, func(rw http.ResponseWriter, r *http.Request) {
				calls++
				answer(status, map[string]string{"Location": to, "Refresh": "0; url=" + private}, "")(rw, r)
			})
			out := w.Deliver(t.Context(), attemptOf(url))
			batch := w.DeliverBatch(t.Context(), []task.Attempt{attemptOf(url)})
			if out.Delivered || out.Permanent || !strings.Contains(out.Error, "redirects are not followed (to "+to) {
				t.Errorf("%d to %s: %+v", status, to, out)
			}
			if batch[0] != out || calls != 2 {
				t.Errorf("%d to %s: as a batch %+v, %d calls", status, to, batch[0], calls)
			}
		}
	}
}

func receiverThatResets(t *testing.T) string {
	return serveRaw(t, func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) })
}

func receiverThatIsDown(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err)
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String()
}

// receiverThatBombs begins a good answer and then repeats one piece until the sender hangs up.
func receiverThatBombs(piece string) func(*testing.T) string {
	return func(t *testing.T) string {
		return serveRaw(t, func(c net.Conn) {
			if !strings.HasPrefix(piece, "HTTP/") {
				write(c, "HTTP/1.1 200 OK\r\n")
			}
			for {
				if _, err := io.WriteString(c, piece); err != nil {
					return
				}
			}
		})
	}
}

func receiverThatReadsNothing(t *testing.T) string {
	return "http://" + listen(t, func(c net.Conn) {
		if _, err := bufio.NewReader(c).ReadString('\n'); err == nil {
			write(c, "HTTP/1.1 413 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}
		untilGone(c)
	})
}

func receiverThatSpeaksFirst(t *testing.T) string {
	return "http://" + listen(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		if _, err := in.Peek(1); err == nil {
			write(c, "HTTP/1.1 500 Never\r\nContent-Length: 0\r\n\r\n")
		}
		untilGone(c)
	})
}

func receiverWithoutTLS(t *testing.T) string {
	return "https://" + listen(t, func(c net.Conn) {
		write(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
		untilGone(c)
	})
}

func receiverWithOwnCertificate(t *testing.T) string {
	s := httptest.NewUnstartedServer(answer(200, nil, ""))
	s.Config.ErrorLog = quiet()
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func TestTLS(t *testing.T) {
	proto := make(chan string, 2)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { proto <- r.Proto }))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	w := newWebhook(t, func(c *Config) {
		c.RootCAs = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		c.Resolver = dnsServer(t, fixed("127.0.0.1")).resolver()
	})
	if out := w.Deliver(t.Context(), attemptOf(s.URL)); !out.Delivered {
		t.Fatalf("outcome %+v", out)
	}
	assert.Equal(t, <-proto, "HTTP/1.1", "spoke")
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	for host, delivered := range map[string]bool{"example.com": true, "other.test": false} { // the certificate's name
		out := w.Deliver(t.Context(), attemptOf("https://"+host+":"+port))
		if out.Delivered != delivered || !delivered && !strings.Contains(out.Error, "other.test") {
			t.Errorf("%s: outcome %+v", host, out)
		}
	}
}
