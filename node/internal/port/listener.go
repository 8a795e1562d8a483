package port

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// firstByte is the first byte of a TLS connection: the type of a record that belongs to a handshake (RFC 8446, B.1).
const firstByte = 22

// Secure returns a listener of TLS connections over l. With plain set, connections from loopback may also be plain:
// their first byte, which tells the two apart, must come within patience.
func Secure(l net.Listener, config *tls.Config, plain bool, patience time.Duration) net.Listener {
	if !plain {
		return tls.NewListener(l, config)
	}
	m := &mixed{Listener: l, config: config, patience: patience, accepted: make(chan accepted), ended: make(chan struct{})}
	m.open, m.close = context.WithCancel(context.Background())
	go m.run()
	return m
}

// mixed is a listener of TLS connections, and of plain ones from loopback.
type mixed struct {
	net.Listener
	config   *tls.Config
	patience time.Duration
	accepted chan accepted
	open     context.Context // ends with Close
	close    context.CancelFunc
	ended    chan struct{}  // closed when run has returned
	looks    sync.WaitGroup // connections whose first byte is awaited
}

// accepted is the result of an Accept.
type accepted struct {
	conn net.Conn
	err  error
}

// run accepts connections until the listener is closed.
func (m *mixed) run() {
	defer close(m.ended)
	for m.open.Err() == nil {
		conn, err := m.Listener.Accept()
		switch {
		case err != nil:
			m.hand(nil, err)
		case isLoopback(conn.RemoteAddr()):
			m.looks.Go(func() { m.look(conn) })
		default:
			m.hand(tls.Server(conn, m.config), nil)
		}
	}
}

// hand passes a result of Accept on, unless the listener is closed.
func (m *mixed) hand(conn net.Conn, err error) {
	select {
	case m.accepted <- accepted{conn, err}:
	case <-m.open.Done():
		if conn != nil {
			_ = conn.Close() // its caller is not served
		}
	}
}

// look waits for the first byte of a connection.
func (m *mixed) look(conn net.Conn) {
	stop := context.AfterFunc(m.open, func() { _ = conn.Close() })
	first := make([]byte, 1)
	_ = conn.SetReadDeadline(time.Now().Add(m.patience)) // a failure shows in the read
	_, err := conn.Read(first)
	if err == nil {
		err = conn.SetReadDeadline(time.Time{})
	}
	if !stop() || err != nil {
		_ = conn.Close() // it is silent, broken or not served any more
		return
	}
	var whole net.Conn = &peeked{Conn: conn, first: first}
	if first[0] == firstByte {
		whole = tls.Server(whole, m.config)
	}
	m.hand(whole, nil)
}

// Accept returns the next connection.
func (m *mixed) Accept() (net.Conn, error) {
	select {
	case a := <-m.accepted:
		return a.conn, a.err
	case <-m.open.Done():
		return nil, net.ErrClosed
	}
}

// Close closes the listener below, and the connections that Accept has not returned. No connection is accepted any more
// once it returns.
func (m *mixed) Close() error {
	m.close()
	err := m.Listener.Close()
	<-m.ended
	m.looks.Wait()
	return err
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// peeked is a connection whose first byte has been read.
type peeked struct {
	net.Conn
	first []byte // not returned by Read yet
}

// Read returns the first byte alone, and then the rest. net/http calls it from one goroutine at a time.
func (p *peeked) Read(b []byte) (int, error) {
	if len(p.first) == 0 || len(b) == 0 {
		return p.Conn.Read(b)
	}
	n := copy(b, p.first)
	p.first = p.first[n:]
	return n, nil
}

// IsLoopback reports whether a host, which may be empty, is only this machine: localhost, or an IP address of loopback.
// It does not resolve other names.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
