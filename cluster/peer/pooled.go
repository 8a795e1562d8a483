package peer

import (
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pooled is a connection that Raft keeps between exchanges. If the peer has restarted, the connection is dead, and Raft
// would lose one exchange on it before it noticed: a lost request for a vote costs an election and some hundred
// milliseconds. So pooled checks a rested connection before a write, and replaces a dead one.
type pooled struct {
	again func() (net.Conn, error)

	mu       sync.Mutex
	conn     net.Conn
	used     time.Time // time of the last Read or Write
	reading  int       // Reads in progress
	awaited  bool      // bytes were written and none read since: an answer is due
	deadline func(net.Conn) error
	closed   bool
}

// rest is the idle time after which a connection is checked. Raft itself notices the death of a busy connection.
const rest = 200 * time.Millisecond

func (p *pooled) Write(b []byte) (int, error) {
	conn, err := p.forWriting()
	if err != nil {
		return 0, err
	}
	return conn.Write(b)
}

func (p *pooled) forWriting() (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rested := !p.awaited && p.reading == 0 && time.Since(p.used) > rest
	if rested && !p.closed && isDead(p.conn) {
		if err := p.replace(); err != nil {
			return nil, err
		}
	}
	p.used = time.Now()
	p.awaited = true
	return p.conn, nil
}

// replace dials anew. It holds the lock, so the connection cannot be used meanwhile, and Close waits for the dial.
func (p *pooled) replace() error {
	conn, err := p.again()
	if err != nil {
		return err
	}
	_ = p.conn.Close() // it is dead
	p.conn = conn
	if p.deadline != nil {
		return p.deadline(conn)
	}
	return nil
}

func (p *pooled) Read(b []byte) (int, error) {
	p.mu.Lock()
	conn := p.conn
	p.reading++
	p.mu.Unlock()
	n, err := conn.Read(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reading--
	p.used = time.Now()
	if n > 0 {
		p.awaited = false
	}
	return n, err
}

func (p *pooled) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return p.conn.Close()
}

func (p *pooled) setDeadline(set func(net.Conn) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deadline = set
	return set(p.conn)
}

func (p *pooled) SetDeadline(t time.Time) error {
	return p.setDeadline(func(c net.Conn) error { return c.SetDeadline(t) })
}

func (p *pooled) SetReadDeadline(t time.Time) error {
	return p.setDeadline(func(c net.Conn) error { return c.SetReadDeadline(t) })
}

func (p *pooled) SetWriteDeadline(t time.Time) error {
	return p.setDeadline(func(c net.Conn) error { return c.SetWriteDeadline(t) })
}

func (p *pooled) LocalAddr() net.Addr  { return p.current().LocalAddr() }
func (p *pooled) RemoteAddr() net.Addr { return p.current().RemoteAddr() }

func (p *pooled) current() net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conn
}

// isDead reports whether a connection that expects no bytes is of no more use. It peeks without waiting: an end, an
// error, or unexpected bytes (TLS closes with some) mean that the connection is dead.
func isDead(conn net.Conn) bool {
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = t.NetConn()
	}
	if r, ok := conn.(interface{ Readable() bool }); ok {
		return r.Readable()
	}
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	dead := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		dead = err != unix.EAGAIN && err != unix.EINTR
	})
	return dead || err != nil
}
