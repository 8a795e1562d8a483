package peer

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
)

// connSet bounds and remembers open connections, so that all can be closed at once.
type connSet struct {
	limit int

	mu     sync.Mutex
	conns  map[*tracked]struct{}
	closed bool
}

// tracked leaves its set when it is closed.
type tracked struct {
	net.Conn
	set  *connSet
	once sync.Once
}

func newConnSet(limit int) *connSet {
	return &connSet{limit: limit, conns: make(map[*tracked]struct{})}
}

// add takes the connection in, or says no: the set is full or closed. Then the connection stays the caller's.
func (s *connSet) add(conn net.Conn) (*tracked, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.limit > 0 && len(s.conns) >= s.limit {
		return nil, false
	}
	t := &tracked{Conn: conn, set: s}
	s.conns[t] = struct{}{}
	return t, true
}

// release forgets the connection without closing it.
func (s *connSet) release(t *tracked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, t)
}

func (s *connSet) closeAll() {
	s.mu.Lock()
	s.closed = true
	conns := s.conns
	s.conns = make(map[*tracked]struct{})
	s.mu.Unlock()
	for t := range conns {
		_ = t.Close() // it is being abandoned
	}
}

func (t *tracked) Close() error {
	t.once.Do(func() { t.set.release(t) })
	return t.Conn.Close()
}

// Read says of every way in which a connection can be hung up on, here or there, that it is at its end: readers log
// what they do not expect, and this is daily bread.
func (t *tracked) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	if errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) {
		err = io.EOF
	}
	return n, err
}

// room is where connections of one kind arrive. It is a net.Listener.
type room struct {
	addr  net.Addr
	queue chan net.Conn
	conns *connSet
	done  chan struct{}
	once  sync.Once
	leave func() // takes the room off the mux; may be nil
}

func newRoom(addr net.Addr, limit int) *room {
	return &room{addr: addr, queue: make(chan net.Conn), conns: newConnSet(limit), done: make(chan struct{})}
}

// deliver hands the connection to whoever accepts, and waits for that; false: the room is full or closed.
func (r *room) deliver(conn net.Conn) bool {
	t, ok := r.conns.add(conn)
	if !ok {
		return false
	}
	select {
	case r.queue <- t:
		return true
	case <-r.done:
		r.conns.release(t)
		return false
	}
}

func (r *room) Accept() (net.Conn, error) {
	select {
	case conn := <-r.queue:
		return conn, nil
	case <-r.done:
		return nil, net.ErrClosed
	}
}

// Close also closes every connection that arrived here.
func (r *room) Close() error {
	r.once.Do(func() {
		close(r.done)
		if r.leave != nil {
			r.leave()
		}
		r.conns.closeAll()
	})
	return nil
}

func (r *room) Addr() net.Addr { return r.addr }
