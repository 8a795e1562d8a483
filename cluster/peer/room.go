package peer

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
)

// connSet is a bounded set of open connections, which can be closed together.
type connSet struct {
	limit int

	mu     sync.Mutex
	conns  map[*tracked]struct{}
	closed bool
}

// tracked is a connection that leaves its set when it is closed.
type tracked struct {
	net.Conn
	set  *connSet
	once sync.Once
}

func newConnSet(limit int) *connSet {
	return &connSet{limit: limit, conns: make(map[*tracked]struct{})}
}

// add puts the connection into the set. It returns false if the set is full or closed: the caller keeps the connection.
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

// release removes the connection from the set without closing it.
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
		_ = t.Close() // its set is closing
	}
}

func (t *tracked) Close() error {
	t.once.Do(func() { t.set.release(t) })
	return t.Conn.Close()
}

// Read returns io.EOF for every way in which either end can close a connection. Readers log unexpected errors, and
// these are common.
func (t *tracked) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	if errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) {
		err = io.EOF
	}
	return n, err
}

// room is a net.Listener for connections of one kind.
type room struct {
	addr  net.Addr
	queue chan net.Conn
	conns *connSet
	done  chan struct{}
	once  sync.Once
	leave func() // removes the room from the mux; may be nil
}

func newRoom(addr net.Addr, limit int) *room {
	return &room{addr: addr, queue: make(chan net.Conn), conns: newConnSet(limit), done: make(chan struct{})}
}

// deliver waits until Accept takes the connection. It returns false if the room is full or closed.
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

// Close closes the room and every connection that arrived in it.
func (r *room) Close() error {
	r.shut()
	r.conns.closeAll()
	return nil
}

// shut lets no further connection in. Those that arrived stay open.
func (r *room) shut() {
	r.once.Do(func() {
		close(r.done)
		if r.leave != nil {
			r.leave()
		}
	})
}

// entrance is a room whose Close keeps the connections that arrived, as a server expects that drains them first.
type entrance struct{ *room }

func (e entrance) Close() error {
	e.shut()
	return nil
}

func (r *room) Addr() net.Addr { return r.addr }
