package memnet

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// buffer is the number of bytes that a connection holds in each direction before its writer waits.
const buffer = 256 << 10

// keptBuffer is the largest buffer that an empty connection keeps.
const keptBuffer = 16 << 10

// stream is one direction of a connection.
type stream struct {
	mu      sync.Mutex // guards the fields below
	changed *sync.Cond
	buf     []byte
	read    int   // bytes of buf that have been read
	limit   int   // most bytes in buf that have not been read
	ended   error // io.EOF once the writer has closed, or a reset; reads return it after the bytes in buf
	dropped error // error of writes once the reader has closed

	readDeadline, writeDeadline deadline
}

func newStream() *stream {
	s := &stream{limit: buffer}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *stream) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.dropped != nil:
			return 0, net.ErrClosed
		case s.readDeadline.passed():
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case s.read < len(s.buf):
			n := copy(b, s.buf[s.read:])
			if s.read += n; s.read == len(s.buf) {
				s.read, s.buf = 0, s.buf[:0]
				if cap(s.buf) > keptBuffer {
					s.buf = nil
				}
			}
			s.changed.Broadcast()
			return n, nil
		case s.ended != nil:
			return 0, s.ended
		}
		s.changed.Wait()
	}
}

func (s *stream) Write(b []byte) (written int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		room := s.limit - (len(s.buf) - s.read)
		switch {
		case s.ended != nil:
			return written, net.ErrClosed
		case s.dropped != nil:
			return written, s.dropped
		case s.writeDeadline.passed():
			return written, os.ErrDeadlineExceeded
		case len(b) == 0:
			return written, nil
		case room > 0:
			n := min(room, len(b))
			if s.read > 0 && len(s.buf)+n > cap(s.buf) {
				s.read, s.buf = 0, s.buf[:copy(s.buf, s.buf[s.read:])]
			}
			s.buf = append(s.buf, b[:n]...)
			b, written = b[n:], written+n
			s.changed.Broadcast()
			continue
		}
		s.changed.Wait()
	}
}

// end ends the stream for its reader, with io.EOF or a reset. A reset drops the bytes that have not been read.
func (s *stream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	aborted := !errors.Is(err, io.EOF)
	if s.ended == nil || aborted {
		s.ended = err
	}
	if aborted {
		s.read, s.buf = 0, nil
	}
	s.writeDeadline.set(time.Time{}, s.changed)
}

// drop ends the stream for its writer, whose writes fail with the error from now on.
func (s *stream) drop(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped == nil {
		s.dropped = err
	}
	s.read, s.buf = 0, nil
	s.readDeadline.set(time.Time{}, s.changed)
}

// setDeadline sets one of the stream's deadlines.
func (s *stream) setDeadline(d *deadline, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.set(at, s.changed)
}

// conn is one end of a connection. Its errors are those of a TCP connection.
type conn struct {
	in, out       *stream
	local, remote *net.TCPAddr
	host          *Host // nil: none that can be cut off

	mu     sync.Mutex // guards the fields below
	closed bool
	abort  bool // Close resets the connection
}

// pair returns the two ends of a connection.
func pair(from, to *net.TCPAddr) (caller, callee *conn) {
	there, back := newStream(), newStream()
	return &conn{in: back, out: there, local: from, remote: to}, &conn{in: there, out: back, local: to, remote: from}
}

// Read waits for bytes, the end of the stream, or the read deadline.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	return n, c.as("read", err)
}

// Readable reports whether a Read without a deadline would return at once, with bytes or an error.
func (c *conn) Readable() bool {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	return c.in.dropped != nil || c.in.ended != nil || c.in.read < len(c.in.buf)
}

// Write waits until all bytes are in the buffer of the connection.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.out.Write(b)
	return n, c.as("write", err)
}

// as returns the error as that of an operation on a TCP connection.
func (c *conn) as(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// Close closes both directions. The peer reads what has been written, and then io.EOF; after SetLinger(0) its
// operations fail at once, as with a reset.
func (c *conn) Close() error {
	c.mu.Lock()
	abort, again := c.abort, c.closed
	c.closed = true
	c.mu.Unlock()
	if again {
		return c.as("close", net.ErrClosed)
	}
	c.host.remove(c)
	if abort {
		c.reset()
		return nil
	}
	c.out.end(io.EOF)
	c.in.drop(syscall.EPIPE)
	return nil
}

// reset ends the connection, and drops the bytes that the peer has not read.
func (c *conn) reset() {
	c.out.end(syscall.ECONNRESET)
	c.in.drop(syscall.ECONNRESET)
}

// CloseWrite ends the stream to the peer.
func (c *conn) CloseWrite() error {
	c.out.end(io.EOF)
	return nil
}

// SetReadBuffer sets the number of bytes that wait to be read before the peer's writes wait.
func (c *conn) SetReadBuffer(bytes int) error {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.in.limit = bytes
	c.in.changed.Broadcast()
	return nil
}

// SetLinger sets how Close ends the connection: with 0 by a reset.
func (c *conn) SetLinger(seconds int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abort = seconds == 0
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines; zero: none.
func (c *conn) SetDeadline(at time.Time) error {
	c.in.setDeadline(&c.in.readDeadline, at)
	c.out.setDeadline(&c.out.writeDeadline, at)
	return nil
}

// SetReadDeadline sets the instant at which reads fail; zero: none.
func (c *conn) SetReadDeadline(at time.Time) error {
	c.in.setDeadline(&c.in.readDeadline, at)
	return nil
}

// SetWriteDeadline sets the instant at which writes fail; zero: none.
func (c *conn) SetWriteDeadline(at time.Time) error {
	c.out.setDeadline(&c.out.writeDeadline, at)
	return nil
}
