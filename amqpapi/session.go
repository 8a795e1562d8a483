package amqpapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/amqpwire"
)

const (
	// maxUnconfirmed is the number of unconfirmed publishes of a connection from which on its client is not read.
	maxUnconfirmed = 1 << 17
	lingerTime     = 2 * time.Second // for a client to read the reason of the end
	readerBytes    = 16 << 10
)

// side is one of the two connections of a session.
type side struct {
	conn   net.Conn
	in     *bufio.Reader
	out    *outbox
	buffer []byte // of the last frame
}

func newSide(conn net.Conn) *side {
	return &side{conn: conn, in: bufio.NewReaderSize(conn, readerBytes), out: newOutbox(conn)}
}

// read reads the next frame, which is valid until the next call.
func (e *side) read(limit int) (amqpwire.Frame, error) {
	return amqpwire.ReadFrame(e.in, &e.buffer, limit)
}

// session is one client's connection with the one to the broker. Four goroutines serve it beside the two that write:
// one reads the client, one reads the broker, one commits the kept messages, and one sends heartbeats.
type session struct {
	s              *Server
	calls          *client.Client
	client, broker *side
	vhost          string
	limit          int           // bytes of a frame
	beat           time.Duration // interval of heartbeats; 0: there are none
	spare          uint16        // channel of the intake's own questions to the broker
	answers        chan answer
	brokerLost     chan struct{} // closed when the broker's connection has ended
	ending         atomic.Bool   // nothing of the client is obeyed any more

	kept   chan *message // in the client's order; closed when the client's connection has ended
	memory *semaphore.Weighted

	mu          sync.Mutex
	wake        sync.Cond // at each change of the fields below
	channels    map[uint16]*channel
	pending     int // kept messages without a result
	unconfirmed int // publishes, of all channels
	lost        bool

	asking    sync.Mutex
	spareOpen bool
	permitted map[string]struct{}
}

func newSession(s *Server, conn net.Conn) *session {
	x := &session{
		s: s, client: newSide(conn), answers: make(chan answer, 1), brokerLost: make(chan struct{}),
		kept: make(chan *message, heldMessages), memory: semaphore.NewWeighted(heldPart),
		channels: map[uint16]*channel{}, permitted: map[string]struct{}{},
	}
	x.wake.L = &x.mu
	return x
}

// run serves the session until one of the connections ends, and the messages that were kept are committed or refused.
func (x *session) run() {
	var writers, others sync.WaitGroup
	writers.Go(x.writeToClient)
	writers.Go(func() {
		if x.broker.out.write() != nil {
			_ = x.broker.conn.Close() // its reader reports the end
		}
	})
	others.Go(x.readBroker)
	stop := make(chan struct{})
	others.Go(func() { x.sendHeartbeats(stop) })
	committed := make(chan struct{})
	go func() {
		defer close(committed)
		x.commit()
	}()
	x.readClient()
	close(x.kept)
	<-committed
	close(stop)
	x.broker.out.end()
	x.client.out.end()
	writers.Wait()
	_ = x.broker.conn.Close() // both may be closed already
	_ = x.client.conn.Close()
	others.Wait()
	x.calls.Close()
}

// writeToClient writes until the session ends. It then lets the client read the reason before the connection is closed.
func (x *session) writeToClient() {
	err := x.client.out.write()
	x.ending.Store(true)
	half, ok := x.client.conn.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		_ = x.client.conn.Close() // its reader reports the end
		return
	}
	_ = x.client.conn.SetReadDeadline(time.Now().Add(lingerTime)) // it may be closed by now
}

func (x *session) sendHeartbeats(stop <-chan struct{}) {
	if x.beat == 0 {
		return
	}
	tick := time.NewTicker(x.beat / 2)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			x.client.out.beat()
			x.broker.out.beat()
		case <-stop:
			return
		}
	}
}

// readClient reads the client until its connection or the session ends.
func (x *session) readClient() {
	stop := context.AfterFunc(x.s.ctx, func() {
		x.abort(amqpwire.Close{Code: connectionForced, Text: "CONNECTION_FORCED - the node is shutting down"})
	})
	defer stop()
	for !x.ending.Load() {
		f, err := x.next(x.client)
		if err == nil {
			err = x.fromClient(f)
		}
		switch {
		case err == nil:
		case errors.Is(err, amqpwire.ErrFrame), errors.Is(err, amqpwire.ErrSyntax):
			x.abort(amqpwire.Close{Code: frameError, Text: "FRAME_ERROR - " + err.Error()})
		case !x.ending.Load():
			return // the client has left
		}
	}
	x.linger()
}

// linger reads what the client still sends, so that it reads what it was sent.
func (x *session) linger() {
	if x.client.conn.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.Copy(io.Discard, x.client.conn) // until the client leaves, or its time is over
	}
}

// next reads a peer's next frame. A peer that is silent for more than two heartbeats is lost.
func (x *session) next(from *side) (amqpwire.Frame, error) {
	if x.beat > 0 {
		if err := from.conn.SetReadDeadline(time.Now().Add(x.beat*2 + x.beat/2)); err != nil {
			return amqpwire.Frame{}, err
		}
		if from == x.client && x.ending.Load() {
			return amqpwire.Frame{}, io.EOF // the deadline was the end's
		}
	}
	return from.read(x.limit)
}

// abort tells the client why its connection ends, and nothing of the client is obeyed any more.
func (x *session) abort(why amqpwire.Close) {
	if x.ending.Swap(true) {
		return
	}
	x.client.out.add(func(b []byte) []byte { return amqpwire.AppendMethod(b, 0, amqpwire.ConnectionClose, why.Append) })
	x.client.out.end()
}

func (x *session) readBroker() {
	for {
		f, err := x.next(x.broker)
		if err != nil {
			break
		}
		x.client.out.room()
		x.fromBroker(f)
	}
	close(x.brokerLost)
	x.mu.Lock()
	x.lost = true
	x.wake.Broadcast()
	x.mu.Unlock()
	x.client.out.end()
}

// The codes of connection.close and channel.close.
const (
	contentTooLarge    = 311
	connectionForced   = 320
	accessRefused      = 403
	preconditionFailed = 406
	frameError         = 501
	channelError       = 504
	unexpectedFrame    = 505
	resourceError      = 506
	internalError      = 541
)
