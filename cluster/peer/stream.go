package peer

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/cluster/peer/internal/wire"
)

// Traffic is the purpose of a stream of messages.
type Traffic = wire.Traffic

// The streams of messages.
const (
	Calls = wire.Calls
	Pulls = wire.Pulls
)

const (
	// maxMessage is the size in bytes of the largest message.
	maxMessage = 64 << 20
	// keptBuffer is the size in bytes up to which a buffer is kept for the next message.
	keptBuffer = 64 << 10
	// beatEvery is the longest time for which an end of a stream sends nothing.
	beatEvery = 4 * time.Second
	// silentBeats is the number of beatEvery without anything from the other end after which a stream ends.
	silentBeats = 3
	// openWithin is the time that a dial has.
	openWithin = time.Second
	// endWithin is the time that the other end has to read the end of a stream.
	endWithin = time.Second
)

// A frame is its kind in one byte, the length of its content in four bytes, big-endian, and the content.
const (
	messageFrame byte = iota
	beatFrame
	endFrame // of an answering end. Its content is the reason of a refusal; empty: the stream ends in order

	headBytes = 5
)

var (
	errNoStream = errors.New("no stream within a second")
	errHungUp   = errors.New("the other node has hung up")
	errSilent   = errors.New("the other node is silent")
	errEnded    = errors.New("the stream has ended")
	errMessage  = fmt.Errorf("a message of more than %d bytes", maxMessage)
	errFrame    = errors.New("malformed frame")
)

// RefusedError is the reason of another node to end a stream. The node has begun nothing that it has not answered.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

// message is a message with generated code.
type message[T any] interface {
	*T
	SizeVT() int
	MarshalToSizedBufferVT(b []byte) (int, error)
	UnmarshalVTUnsafe(b []byte) error
}

// Stream is one end of a stream of messages between two nodes. It sends messages of type S, and receives those of type
// R. One goroutine may receive while others send. Unless it has other messages, each end sends a beat every four
// seconds, so that the stream ends when the other node is gone or hangs.
type Stream[S, R any, PS message[S], PR message[R]] struct {
	conn   *hearing
	ctx    context.Context
	cancel context.CancelCauseFunc // ends the stream
	wrote  atomic.Bool             // a message since the last beat was due

	receiving sync.Mutex // guards in
	in        *bufio.Reader

	sending sync.Mutex // guards out
	out     []byte
}

func newStream[S, R any, PS message[S], PR message[R]](ctx context.Context, conn net.Conn) *Stream[S, R, PS, PR] {
	s := &Stream[S, R, PS, PR]{conn: &hearing{Conn: conn}}
	s.in = bufio.NewReaderSize(s.conn, keptBuffer)
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	go s.watch()
	return s
}

// hearing is a connection with a note of arriving bytes. A large message arrives over a while, and its sender is not
// silent meanwhile.
type hearing struct {
	net.Conn
	heard atomic.Bool
}

func (h *hearing) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	if n > 0 {
		h.heard.Store(true)
	}
	return n, err
}

// OpenStream begins a stream to a node of a cluster within a second or fails, because its callers may find another node
// meanwhile. The stream ends with ctx.
func OpenStream[S, R any, PS message[S], PR message[R]](
	ctx context.Context, e *Endpoint, t Traffic, node, cluster string,
) (*Stream[S, R, PS, PR], error) {
	soon, cancel := context.WithTimeoutCause(ctx, openWithin, errNoStream)
	defer cancel()
	conn, err := e.wire.Dial(soon, node, cluster, t)
	if err != nil {
		return nil, err
	}
	return newStream[S, R, PS, PR](ctx, conn), nil
}

// Incoming is another node's stream before ServeStream.
type Incoming struct {
	net.Conn
	Traffic       Traffic
	From, Cluster string // ids of the other node and of its cluster, as it says
	Name          string // node name in its certificate; empty without keys
}

// AcceptStream waits for a stream of another node. The error is net.ErrClosed.
func (e *Endpoint) AcceptStream() (*Incoming, error) {
	conn, err := e.streams.Accept()
	if err != nil {
		return nil, err
	}
	t := conn.(*tracked)      //nolint:forcetypeassert // a room holds nothing else
	in := *t.Conn.(*Incoming) //nolint:forcetypeassert // as sortWire makes them
	in.Conn = t
	return &in, nil
}

// StopStreams ends AcceptStream, and lets no further stream in. Accepted streams stay open.
func (e *Endpoint) StopStreams() { e.streams.shut() }

// ServeStream takes a stream, and lets serve answer it until the stream or ctx ends. Then it ends the stream: in order
// after nil, with the reason after a *RefusedError, and else at once. In the first two cases serve must have answered
// all that it has begun.
func ServeStream[S, R any, PS message[S], PR message[R]](
	ctx context.Context, in *Incoming, serve func(*Stream[S, R, PS, PR]) error,
) error {
	if err := wire.Take(in.Conn, endWithin); err != nil {
		return errors.Join(err, in.Close())
	}
	s := newStream[S, R, PS, PR](ctx, in.Conn)
	defer s.cancel(errEnded)
	err := serve(s)
	var refused *RefusedError
	switch {
	case err == nil:
		s.end("")
	case errors.As(err, &refused):
		s.end(refused.Reason)
	}
	return err
}

// Context returns a context that ends with the stream.
func (s *Stream[S, R, PS, PR]) Context() context.Context { return s.ctx }

// Send sends a message. After io.EOF only Recv tells how the stream has ended, and does so soon.
func (s *Stream[S, R, PS, PR]) Send(m PS) error {
	n := m.SizeVT()
	if n > maxMessage {
		return errMessage
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	s.out = slices.Grow(appendHead(s.out[:0], messageFrame, n), n)[:headBytes+n]
	if _, err := m.MarshalToSizedBufferVT(s.out[headBytes:]); err != nil {
		return err
	}
	s.wrote.Store(true)
	return s.write()
}

func appendHead(b []byte, kind byte, n int) []byte {
	return binary.BigEndian.AppendUint32(append(b, kind), uint32(n)) //nolint:gosec // at most maxMessage
}

// write writes the frame in out. The caller holds sending.
func (s *Stream[S, R, PS, PR]) write() error {
	_, err := s.conn.Write(s.out)
	if cap(s.out) > keptBuffer {
		s.out = nil
	}
	if err != nil {
		_ = s.conn.SetReadDeadline(time.Now().Add(endWithin)) // fails only on a closed connection, as Recv then will
		return io.EOF
	}
	return nil
}

// Recv returns the next message. The error is io.EOF if the other end has ended the stream in order, and a
// *RefusedError if it has refused this node. After any other error the other node may have received what was sent.
func (s *Stream[S, R, PS, PR]) Recv() (PR, error) {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	m, err := s.receive()
	if err == nil {
		return m, nil
	}
	s.cancel(err)
	return nil, context.Cause(s.ctx)
}

func (s *Stream[S, R, PS, PR]) receive() (PR, error) {
	for {
		kind, data, err := s.readFrame()
		switch {
		case errors.Is(err, io.EOF):
			return nil, errHungUp
		case err != nil:
			return nil, err
		}
		switch {
		case kind == messageFrame:
			var m PR = new(R)
			return m, m.UnmarshalVTUnsafe(data)
		case kind == endFrame && len(data) == 0:
			return nil, io.EOF
		case kind == endFrame:
			return nil, &RefusedError{string(data)}
		case kind != beatFrame:
			return nil, fmt.Errorf("%w of kind %d", errFrame, kind)
		}
	}
}

// readFrame reads a frame into memory of its own.
func (s *Stream[S, R, PS, PR]) readFrame() (kind byte, data []byte, err error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxMessage {
		return 0, nil, errMessage
	}
	data, err = wire.ReadData(s.in, int(n))
	return head[0], data, err
}

// watch sends beats, and ends the stream when nothing is heard of the other node. It closes the connection at the end
// of the stream.
func (s *Stream[S, R, PS, PR]) watch() {
	defer func() { _ = s.conn.Close() }() // the stream has ended
	due := time.NewTicker(beatEvery)
	defer due.Stop()
	for silent := 0; ; {
		select {
		case <-s.ctx.Done():
			return
		case <-due.C:
		}
		if silent++; s.conn.heard.Swap(false) {
			silent = 0
		}
		if silent == silentBeats {
			s.cancel(errSilent)
			return
		}
		if !s.wrote.Swap(false) {
			s.beat()
		}
	}
}

// beat sends a beat, unless a message is being sent.
func (s *Stream[S, R, PS, PR]) beat() {
	if s.sending.TryLock() {
		defer s.sending.Unlock()
		s.out = appendHead(s.out[:0], beatFrame, 0)
		_ = s.write() // Recv tells how the stream has ended
	}
}

// end tells the other node that the stream ends: with the reason to refuse that node, or in order if the reason is
// empty. It returns once the other node has hung up, or after a second.
func (s *Stream[S, R, PS, PR]) end(reason string) {
	if s.conn.SetDeadline(time.Now().Add(endWithin)) != nil {
		return // the connection is closed
	}
	s.sending.Lock()
	s.out = append(appendHead(s.out[:0], endFrame, len(reason)), reason...)
	err := s.write()
	s.sending.Unlock()
	if err == nil {
		s.receiving.Lock()
		defer s.receiving.Unlock()
		_, _ = io.Copy(io.Discard, s.in) // until the other node hangs up, or the deadline
	}
}
