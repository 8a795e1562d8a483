package delivery

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
)

// wire is a connection to a receiver on which no request outlives its attempt. When the connection closes in
// mid-request, or the process ends, the system drops the bytes that the receiver has not acknowledged and resets the
// connection. By default it would send them again and again for a minute or more, and a receiver that was cut off would
// get a request that the node has long given up. A connection without a request closes as usual.
type wire struct {
	tcp
	busy atomic.Bool // a request is without a reply
}

// tcp is a *net.TCPConn, or a connection of a Network that can be reset as one.
type tcp interface {
	net.Conn
	SetLinger(seconds int) error
}

// newWire returns the wire of a TCP connection. On an error it closes the connection.
func newWire(conn net.Conn) (net.Conn, error) {
	w := &wire{}
	var ok bool
	if w.tcp, ok = conn.(tcp); !ok {
		return nil, errors.Join(fmt.Errorf("the connection is a %T and not of TCP", conn), conn.Close())
	}
	if err := w.SetLinger(0); err != nil {
		return nil, errors.Join(err, w.tcp.Close())
	}
	return w, nil
}

// wireOf returns the wire below a connection of the transport.
func wireOf(conn net.Conn) *wire {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	w, _ := conn.(*wire)
	return w
}

// Close closes the connection.
func (w *wire) Close() error {
	if w.busy.Load() {
		return w.tcp.Close()
	}
	return errors.Join(w.SetLinger(-1), w.tcp.Close())
}
