package port

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/memnet"
)

// foreign is a listener whose connections seem to come from another machine.
type foreign struct{ net.Listener }

type foreignConn struct{ net.Conn }

func (f foreign) Accept() (net.Conn, error) {
	conn, err := f.Listener.Accept()
	return foreignConn{conn}, err
}

func (foreignConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711} }

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// serve answers each request with its protocol and whether it came by TLS.
func serve(t *testing.T, l net.Listener) {
	t.Helper()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s tls=%v", r.Proto, r.TLS != nil)
	}), ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		assert.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
}

func ask(t *testing.T, w *world, url string) (string, error) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: w.trust(), ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	assert.NoError(t, err)
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// One port serves TLS to all, HTTP/2 included, and plain HTTP to loopback alone.
func TestPlainOnLoopbackOnly(t *testing.T) {
	w := open(t)
	for _, c := range []struct {
		name           string
		plain, foreign bool
		plainWorks     bool
	}{
		{"TLS only", false, false, false},
		{"plain on loopback", true, false, true},
		{"plain on loopback, from elsewhere", true, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := listen(t)
			addr := l.Addr().String()
			if c.foreign {
				l = foreign{l}
			}
			serve(t, Secure(l, w.TLS(), c.plain, time.Minute))
			if got, err := ask(t, w, "https://"+addr); got != "HTTP/2.0 tls=true" {
				t.Errorf("TLS: %q %v", got, err)
			}
			got, err := ask(t, w, "http://"+addr)
			assert.Equal(t, got == "HTTP/1.1 tls=false", c.plainWorks, "plain: %q %v", got, err)
		})
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	w, l := open(t), listen(t)
	serve(t, Secure(l, w.TLS(), false, time.Minute))
	for version, works := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		cfg := w.trust()
		cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS10, version
		conn, err := (&tls.Dialer{Config: cfg}).DialContext(t.Context(), "tcp", l.Addr().String())
		if (err == nil) != works {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}

func dial(t *testing.T, addr net.Addr) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr.String())
	assert.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ends reports whether the other side has closed a connection that has sent nothing.
func ends(conn net.Conn) error {
	if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil || isTimeout(err) {
		return fmt.Errorf("%d bytes, %w", n, err)
	}
	return nil
}

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}

// A silent connection holds up no other, however long it stays.
func TestSilentConnectionHoldsUpNoOther(t *testing.T) {
	w, l := open(t), listen(t)
	serve(t, Secure(l, w.TLS(), true, time.Hour))
	dial(t, l.Addr())
	for _, scheme := range []string{"http://", "https://"} {
		got, err := ask(t, w, scheme+l.Addr().String())
		assert.Equal(t, err, nil, "%s beside a silent connection: %q", scheme, got)
	}
}

// A silent connection ends when its time is over.
func TestSilentConnectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = 10 * time.Second
		network := memnet.New()
		l, packets, err := network.Listen("127.0.0.1:0")
		assert.NoError(t, err)
		defer packets.Close()
		serve(t, Secure(l, open(t).TLS(), true, patience))
		silent, err := network.Dial(t.Context(), l.Addr().String())
		assert.NoError(t, err)
		begun := time.Now()
		if err := ends(silent); err != nil || time.Since(begun) != patience {
			t.Errorf("a silent connection ends after %v: %v", time.Since(begun), err)
		}
	})
}

// timed is a connection that remembers its deadlines.
type timed struct {
	net.Conn
	deadlines *[]time.Time
}

func (c timed) SetReadDeadline(at time.Time) error {
	*c.deadlines = append(*c.deadlines, at)
	return c.Conn.SetReadDeadline(at)
}

type timedListener struct {
	net.Listener
	deadlines []time.Time
}

func (l *timedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return timed{conn, &l.deadlines}, err
}

// A connection that has shown itself keeps no deadline of the look.
func TestDeadlineEndsWithTheLook(t *testing.T) {
	w, below := open(t), &timedListener{Listener: listen(t)}
	l := Secure(below, w.TLS(), true, time.Minute)
	defer l.Close()
	if _, err := io.WriteString(dial(t, below.Addr()), "G"); err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	assert.NoError(t, err)
	defer conn.Close()
	if d := below.deadlines; len(d) != 2 || d[0].IsZero() || !d[1].IsZero() {
		t.Errorf("deadlines %v", d)
	}
	first := make([]byte, 2)
	if n, err := conn.Read(first); n != 1 || first[0] != 'G' || err != nil {
		t.Errorf("the first byte is lost: %q %v", first[:n], err)
	}
}

// lent is a listener that is used again after its Close, as that of package room.
type lent struct{ *net.TCPListener }

func (l lent) Close() error { return l.SetDeadline(time.Now()) }

// Close ends the connections that are looked at, and leaves all later ones to the next listener on the port.
func TestCloseTakesNoFurtherConnection(t *testing.T) {
	w, tcp := open(t), listen(t).(*net.TCPListener)
	for range 20 {
		assert.NoError(t, tcp.SetDeadline(time.Time{}))
		l := Secure(lent{tcp}, w.TLS(), true, time.Minute)
		refused := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			refused <- err
		}()
		silent := dial(t, tcp.Addr())
		assert.NoError(t, l.Close())
		if err := <-refused; !errors.Is(err, net.ErrClosed) && !isTimeout(err) {
			t.Errorf("Accept returns %v", err)
		}
		assert.NoError(t, tcp.SetDeadline(time.Now().Add(time.Minute)))
		next := dial(t, tcp.Addr())
		conn, err := tcp.Accept()
		if err == nil && conn.RemoteAddr().String() == silent.LocalAddr().String() {
			_ = conn.Close() // it had not been accepted
			conn, err = tcp.Accept()
		}
		if err != nil || conn.RemoteAddr().String() != next.LocalAddr().String() {
			t.Fatalf("the next connection is lost: %v", err)
		}
		_ = conn.Close()
		_ = silent.SetReadDeadline(time.Now().Add(time.Minute))
		assert.Equal(t, ends(silent), nil, "a connection that was looked at")
	}
}

// stuck is a listener whose Accept ends some time after its Close.
type stuck struct {
	net.Listener
	accepted chan struct{}
}

func (s stuck) Accept() (net.Conn, error) {
	<-s.accepted
	return nil, net.ErrClosed
}

func (stuck) Close() error { return nil }

// Close does not return while a connection may still be accepted.
func TestCloseWaitsForAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := stuck{accepted: make(chan struct{})}
		l, closed := Secure(below, new(tls.Config), true, time.Minute), false
		synctest.Wait() // it accepts
		ended := make(chan struct{})
		go func() {
			assert.Equal(t, l.Close(), nil)
			closed = true
			close(ended)
		}()
		synctest.Wait()
		if closed {
			t.Error("closed while Accept goes on")
		}
		close(below.accepted)
		<-ended
	})
}

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.1.2.3": true, "::1": true, "localhost": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "localhost.example": false, "belfry.example": false,
	} {
		assert.Equal(t, IsLoopback(host), want, "%q", host)
	}
}
