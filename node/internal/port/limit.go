package port

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Limit returns a listener that closes connections at once while all are open already, or each of one network: one IPv4
// address, or 64 bits of IPv6. Loopback has no limit of its own. With each 0 no network has, as behind a proxy. So no
// number of callers takes the file descriptors that the node needs for its own files.
func Limit(l net.Listener, all, each int, log *slog.Logger) net.Listener {
	return &limited{Listener: l, all: all, each: each, log: log, open: map[netip.Prefix]int{}}
}

type limited struct {
	net.Listener
	all, each int
	log       *slog.Logger

	mu   sync.Mutex
	sum  int
	open map[netip.Prefix]int // without zeros
}

// Accept returns the next connection within the limits.
func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := networkOf(conn.RemoteAddr())
		if l.enter(from) {
			return &counted{Conn: conn, leave: sync.OnceFunc(func() { l.leave(from) })}, nil
		}
		l.log.Warn("refused a connection to the API: too many are open", "from", conn.RemoteAddr())
		_ = conn.Close() // nothing was read from it
	}
}

// SetDeadline bounds the wait of Accept.
func (l *limited) SetDeadline(at time.Time) error {
	d, ok := l.Listener.(interface{ SetDeadline(at time.Time) error })
	if !ok {
		return errors.ErrUnsupported
	}
	return d.SetDeadline(at)
}

func (l *limited) enter(from netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sum >= l.all || l.each > 0 && l.open[from] >= l.each && !from.Addr().IsLoopback() {
		return false
	}
	l.sum++
	l.open[from]++
	return true
}

func (l *limited) leave(from netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sum--
	if l.open[from]--; l.open[from] == 0 {
		delete(l.open, from)
	}
}

func networkOf(addr net.Addr) netip.Prefix {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip, bits := tcp.AddrPort().Addr().Unmap().WithZone(""), 64
	if ip.Is4() || ip.IsLoopback() {
		bits = ip.BitLen()
	}
	return netip.PrefixFrom(ip, bits).Masked()
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	leave func()
}

// CloseWrite lets the HTTP server end a connection so that its caller still reads the answer.
func (c *counted) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (c *counted) Close() error {
	err := c.Conn.Close()
	c.leave()
	return err
}
