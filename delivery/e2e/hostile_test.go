package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/memnet"
)

// kind is one kind of harm that a receiver can do to the sender.
type kind struct {
	name string
	// harm gets each connection until the receiver is healed, and returns when it is done with the connection. The channel
	// is closed at the healing. A nil harm means that no socket listens.
	harm func(c net.Conn, healed <-chan struct{})
	// says lists texts of which the task's last error must contain one. It is nil if the receiver answers 2xx, so that the
	// task counts as delivered, whatever follows.
	says []string
}

const neverReads = "never reads"

// kinds returns all known kinds of harm. Redirects lead to elsewhere, where no request may arrive.
func kinds(elsewhere string) []kind {
	return []kind{
		{"down", nil, []string{"refused"}},
		{"resets", reset, []string{"reset", "broken", "EOF"}},
		{"silent", silent, []string{"time"}},
		{"slow", slow(10 * time.Second), []string{"time"}},
		{neverReads, neverRead, []string{"time"}},
		{"half a header", halfHeader, []string{"time"}},
		{"endless header", endlessHeader, []string{"header", "time", "big", "large"}},
		{"no HTTP", answering("SSH-2.0-OpenSSH_9.9\r\n"), []string{"HTTP", "malformed", "answer"}},
		{"always 500", answering("HTTP/1.1 500 Oh No\r\nConnection: close\r\n\r\nno luck"), []string{"500"}},
		{"500 and half a body", halfBody("500 Oh No"), []string{"500"}},
		{"500 and 10 MB", hugeBody("500 Oh No"), []string{"500"}},
		{"redirects to another", answering(redirect(elsewhere)), []string{"307", "redirect"}},
		{"redirects inwards", answering(redirect("http://169.254.169.254/latest/")), []string{"307", "redirect"}},
		{"200 and half a body", halfBody("200 OK"), nil},
		{"200 and 10 MB", hugeBody("200 OK"), nil},
	}
}

func redirect(to string) string {
	return "HTTP/1.1 307 Temporary Redirect\r\nLocation: " + to + "\r\nConnection: close\r\n\r\n"
}

// reset answers a request with a reset of the connection.
func reset(c net.Conn, _ <-chan struct{}) {
	_, _ = http.ReadRequest(bufio.NewReader(c))
	if tcp, ok := c.(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(0)
	}
}

// silent reads all requests and answers none.
func silent(c net.Conn, _ <-chan struct{}) { _, _ = io.Copy(io.Discard, c) }

// slow answers after d. For a sender of less patience it is silent.
func slow(d time.Duration) func(net.Conn, <-chan struct{}) {
	return func(c net.Conn, healed <-chan struct{}) {
		takeRequest(c)
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		case <-healed:
		}
	}
}

// neverRead reads nothing until the receiver is healed or gone, so that the sender's bytes pile up.
func neverRead(c net.Conn, healed <-chan struct{}) {
	if tcp, ok := c.(interface{ SetReadBuffer(bytes int) error }); ok {
		_ = tcp.SetReadBuffer(shortWindow)
	}
	<-healed
}

const shortWindow = 4 << 10

func halfHeader(c net.Conn, _ <-chan struct{}) {
	takeRequest(c)
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Le")
	silent(c, nil)
}

func endlessHeader(c net.Conn, _ <-chan struct{}) {
	takeRequest(c)
	_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n")
	line := "X-More: " + strings.Repeat("and more ", 100) + "\r\n"
	for err == nil {
		_, err = io.WriteString(c, line)
	}
}

// answering sends these bytes as the answer to a request and closes the connection.
func answering(bytes string) func(net.Conn, <-chan struct{}) {
	return func(c net.Conn, _ <-chan struct{}) {
		takeRequest(c)
		_, _ = io.WriteString(c, bytes)
	}
}

// halfBody sends an answer without the second half of its body.
func halfBody(status string) func(net.Conn, <-chan struct{}) {
	return func(c net.Conn, _ <-chan struct{}) {
		takeRequest(c)
		_, _ = io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Length: 1000\r\n\r\n"+strings.Repeat("x", 500))
		silent(c, nil)
	}
}

const hugeBytes = 10 << 20

func hugeBody(status string) func(net.Conn, <-chan struct{}) {
	return func(c net.Conn, _ <-chan struct{}) {
		takeRequest(c)
		_, err := fmt.Fprintf(c, "HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", status, hugeBytes)
		piece := strings.Repeat("much ado ", 1000)
		for sent := 0; err == nil && sent < hugeBytes; sent += len(piece) {
			_, err = io.WriteString(c, piece[:min(len(piece), hugeBytes-sent)])
		}
	}
}

// takeRequest reads a request with its body, as far as they arrive.
func takeRequest(c net.Conn) {
	if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
}

// hostile is a receiver that does harm until it is healed. After that its sink gets the requests.
type hostile struct {
	kind
	url  string
	addr string
	sink *sink

	stage *stage

	healed chan struct{}
	sound  handover
}

// newHostile starts a receiver of the given kind, on an address of its own.
func newHostile(t testing.TB, s *stage, k kind) *hostile {
	t.Helper()
	l := s.listen(t, s.freeAddr(t))
	h := &hostile{kind: k, addr: l.Addr().String(), sink: s.newSink(t), stage: s, healed: make(chan struct{})}
	h.url = "http://" + h.addr + "/hook"
	h.sound = handover{addr: l.Addr(), conns: make(chan net.Conn), closed: make(chan struct{})}
	h.serve(t)
	if k.harm == nil {
		_ = l.Close()
	} else {
		h.accept(t, l)
	}
	return h
}

// serve runs the sink on the connections that are handed over.
func (h *hostile) serve(t testing.TB) {
	server := &http.Server{Handler: h.sink, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(h.sound) }()
	t.Cleanup(func() {
		close(h.sound.closed)
		assert.ErrorIs(t, <-ended, net.ErrClosed)
		_ = server.Close()
	})
}

func (h *hostile) accept(t testing.TB, l net.Listener) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go h.meet(c)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-over
	})
}

// meet does harm to one connection, or hands it to the sink after the healing.
func (h *hostile) meet(c net.Conn) {
	select {
	case <-h.healed:
		h.sound.hand(c)
		return
	default:
	}
	over := make(chan struct{})
	go func() { // a healing, or the end of the test, ends the connection
		select {
		case <-h.healed:
		case <-h.sound.closed:
		case <-over:
		}
		_ = c.Close()
	}()
	h.harm(c, h.healed)
	close(over)
}

// heal turns the receiver into a normal one, at its old address.
func (h *hostile) heal(t testing.TB) {
	t.Helper()
	close(h.healed)
	if h.harm != nil {
		return
	}
	h.accept(t, h.stage.listen(t, h.addr))
}

// handover is the listener of a healed receiver's connections.
type handover struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
}

func (l handover) hand(c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.closed:
		_ = c.Close()
	}
}

func (l handover) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l handover) Close() error   { return nil }
func (l handover) Addr() net.Addr { return l.addr }

// TestHostileReceivers checks the hostile receivers with a plain client of little patience: each does the harm of its
// name, and none after its healing.
func TestHostileReceivers(t *testing.T) {
	for _, k := range kinds("http://127.0.0.1:1/") {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &stage{memory: memnet.New()}
				h, c := newHostile(t, s, k), s.impatient()
				status, body, err := post(c, h.url)
				if err == nil && 200 <= status && status <= 299 && body != hugeBytes {
					t.Errorf("it did no harm: %d with %d bytes", status, body)
				}
				for _, want := range []int{http.StatusTemporaryRedirect, http.StatusInternalServerError, http.StatusOK} {
					if strings.Contains(strings.Join(k.says, " ")+k.name, fmt.Sprint(want)) && status != want {
						t.Errorf("it answers %d, %v", status, err)
					}
				}
				h.heal(t)
				if status, _, err := post(c, h.url); status != http.StatusOK || err != nil {
					t.Errorf("healed, it answers %d, %v", status, err)
				}
				taken, _ := h.sink.counts()
				assert.Equal(t, taken, 1, "healed, its sink took")
			})
		})
	}
}

// impatient returns a client with a short timeout that follows no redirects.
func (s *stage) impatient() *http.Client {
	return &http.Client{
		Timeout:       time.Second,
		Transport:     &http.Transport{DisableKeepAlives: true, DialContext: s.dial()},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// post returns the status, if one came, even if the rest of the answer is broken.
func post(c *http.Client, url string) (status int, body int64, err error) {
	resp, err := c.Post(url, "text/plain", strings.NewReader(strings.Repeat("x", 64<<10)))
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, n, err
}
