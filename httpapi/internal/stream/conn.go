package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/internal/contract"
)

// Server is the server of a Conn.
type Server interface {
	Recycle(data *[]byte) // takes back the data of a written piece
	Control(err error)    // takes the error of a deadline, a flush or a similar call, or nil
}

// User is the user of a Conn, which reads the lines and writes the answers.
type User interface {
	Reading() // comes before each read, which may wait for the client
	Arrived() // comes after each read, before its lines
	Part()    // puts the last answers of a client that may not go on, and ends the intake
}

// Config holds the settings of a Conn.
type Config struct {
	Server    Server
	User      User
	LineBytes int           // the longest allowed line, without its end
	Stall     time.Duration // how long the client may take no answer

	// Lost ends when the client may not go on. Then User.Part is called, nothing more is read, and the client has the
	// time Grace to take the answers. Nil: the client may always go on.
	Lost  context.Context
	Grace time.Duration
}

// Conn is a connection on which lines go both ways at once. Steps of its user read, work and write in parallel, and end
// together.
type Conn struct {
	cfg    Config
	body   io.Reader
	length int64 // of the body; -1: unknown
	out    *echo.Response
	conn   *http.ResponseController
	idleAt atomic.Int64 // when the present read gives up, in Unix nanoseconds
	unread atomic.Bool  // the client may still be sending after the last read
	parted atomic.Bool  // the client may not go on
	ending atomic.Bool  // StopReading was called

	head   sync.Mutex // held while the answer's header is written
	headed bool
}

// Step is a part of the work on a connection. Its error ends all steps. It must end when the context does.
type Step func(context.Context) error

// New makes a connection of a call. The call's handler may set headers until the first step.
func New(c echo.Context, cfg Config) *Conn {
	d := &Conn{
		cfg: cfg, body: c.Request().Body, length: c.Request().ContentLength,
		out: c.Response(), conn: http.NewResponseController(c.Response().Writer),
	}
	d.idleAt.Store(math.MaxInt64)
	d.cfg.Server.Control(d.conn.EnableFullDuplex())
	if c.Request().Header.Get("Expect") != "" {
		d.out.Writer.WriteHeader(http.StatusContinue) // some clients take any other status for a refusal of the body
	}
	d.cfg.Server.Control(d.conn.SetWriteDeadline(time.Time{})) // the server's own deadline is for single calls
	return d
}

// Small reports whether the body is known to fit into a single block.
func (d *Conn) Small() bool { return d.length >= 0 && d.length <= blockBytes }

// SendHead sends the answer's header, unless it was sent, before any line is answered: a client may wait for it.
func (d *Conn) SendHead() {
	d.head.Lock()
	defer d.head.Unlock()
	if !d.headed {
		d.headed = true
		d.out.WriteHeader(http.StatusOK)
		d.cfg.Server.Control(d.conn.Flush())
	}
}

// Run runs all steps in parallel until each has ended.
func (d *Conn) Run(request context.Context, abandon func(), steps ...Step) error {
	return d.Perform(request, abandon, func(do func(Step)) {
		var all sync.WaitGroup
		for _, s := range steps {
			all.Go(func() { do(s) })
		}
		all.Wait()
	})
}

// Perform calls work, which runs each step with do. The first error, or the client's leaving, ends the steps' context,
// calls abandon, and wakes blocked reads and writes.
func (d *Conn) Perform(request context.Context, abandon func(), work func(do func(Step))) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(request))
	defer cancel(nil)
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		abandon()
		past := time.Unix(1, 0)
		d.cfg.Server.Control(d.conn.SetReadDeadline(past))
		d.cfg.Server.Control(d.conn.SetWriteDeadline(past))
	})
	defer context.AfterFunc(request, func() {
		// The server ends a request's context after any failed read, even one for idleness. An idle client is still there.
		if time.Now().UnixNano() < d.idleAt.Load() {
			cancel(ErrClient)
		}
	})()
	settled := d.awaitLoss(cancel)
	work(func(s Step) {
		if err := guard(func() error { return s(ctx) }); err != nil {
			cancel(err)
		}
	})
	settled()
	if stop() {
		d.leaveUnread()
		return nil
	}
	<-woken // the connection must not be used after the handler
	return context.Cause(ctx)
}

// awaitLoss ends the work in order when the client may not go on, and cuts the connection if that takes too long. The
// work must have ended before settled is called.
func (d *Conn) awaitLoss(cut context.CancelCauseFunc) (settled func()) {
	if d.cfg.Lost == nil {
		return func() {}
	}
	done := make(chan struct{})
	var late *time.Timer
	stop := context.AfterFunc(d.cfg.Lost, func() {
		defer close(done)
		late = time.AfterFunc(d.cfg.Grace, func() { cut(ErrLate) })
		d.parted.Store(true)
		d.unread.Store(true)
		d.cfg.User.Part()
		d.StopReading()
	})
	return func() {
		if !stop() {
			<-done
			late.Stop()
		}
	}
}

// leaveUnread lets the HTTP server close the connection of a client that may still be sending. The server searches for
// the body's end within 256 KiB. Only after reading that much does it wait a little before it closes, so that the
// client can read the answer. leaveUnread therefore gives the search a moment.
func (d *Conn) leaveUnread() {
	if d.unread.Load() {
		d.cfg.Server.Control(d.conn.SetReadDeadline(time.Now().Add(quiet)))
	}
}

// quiet is the wait for more of a body, and for its rest.
const quiet = 100 * time.Millisecond

// guard turns a panic into an error, since the HTTP server does not watch these goroutines.
func guard(step func() error) (err error) {
	defer func() {
		if what := recover(); what != nil {
			err = &PanicError{what: what, stack: debug.Stack()}
		}
	}()
	return step()
}

// PanicError means that an invariant was broken in a step.
type PanicError struct {
	what  any
	stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic in a stream: %v\n%s", e.what, e.stack) }

// The reasons for a step's end.
var (
	ErrCut    = errors.New("the stream was cut")        // another step has ended with the real error
	ErrClient = errors.New("the client is gone")        // wrapped by errors of the client or the network
	ErrIdle   = errors.New("no line came for too long") // from Lines
	ErrLong   = errors.New("a line has no end")         // from Lines
	ErrParted = errors.New("the client may not go on")  // from Lines
	ErrLate   = errors.New("the last answers were not taken in time")
)

// Line takes one line of the client, without its end. Of a line over the limit it gets no data, and tooLong. It returns
// false to cut the stream.
type Line func(data []byte, tooLong bool) bool

// Lines calls line with each line of the client until the client ends the body. Blank lines are skipped. idle bounds
// the time until the next line is whole; 0 means no bound. The error is ErrCut when line returns false, ErrIdle when
// idle passes or after StopReading, ErrParted when the client may not go on, and ErrLong in a line of more than 16
// times the limit. Lines reads no more of such a line, since it may never end.
func (d *Conn) Lines(idle time.Duration, line Line) error {
	err := d.lines(idle, line)
	if err != nil && d.parted.Load() {
		return ErrParted
	}
	return err
}

func (d *Conn) lines(idle time.Duration, line Line) error {
	f := newFramer(d.cfg.LineBytes, d.length)
	d.awaitLine(idle)
	for {
		d.cfg.User.Reading()
		n, err := d.body.Read(f.room())
		f.filled(n)
		d.cfg.User.Arrived()
		handed, cut := each(f, line)
		if handed > 0 {
			d.awaitLine(idle)
		}
		switch {
		case cut != nil:
			return cut
		case f.endless():
			d.idleAt.Store(0)
			d.unread.Store(true)
			return ErrLong
		case err == nil && d.ending.Load():
			d.unread.Store(true)
			return ErrIdle
		}
		switch {
		case err == nil:
		case err == io.EOF:
			d.idleAt.Store(math.MaxInt64) // now the request's end means that the client left
			if rest := f.rest(); !blank(rest) && !line(rest, false) {
				return ErrCut
			}
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return ErrIdle
		default:
			return fmt.Errorf("%w: read lines: %w", ErrClient, err)
		}
	}
}

// awaitLine gives the client the time idle for its next line. 0 means no bound.
func (d *Conn) awaitLine(idle time.Duration) {
	if idle <= 0 {
		return
	}
	idleAt := time.Now().Add(idle)
	d.idleAt.Store(idleAt.UnixNano())
	d.cfg.Server.Control(d.conn.SetReadDeadline(idleAt))
	if d.ending.Load() {
		d.StopReading() // its deadline may have come first
	}
}

// StopReading ends Lines with ErrIdle after the next bytes, or when none come for a moment. That does not count as the
// client's leaving. A read in progress is not woken at once: over HTTP/1 a failed read is the body's last, and the
// server closes the connection of a client that may still be sending, which loses the answer's end.
func (d *Conn) StopReading() {
	d.ending.Store(true)
	d.idleAt.Store(0)
	d.cfg.Server.Control(d.conn.SetReadDeadline(time.Now().Add(quiet)))
}

// each passes the framer's lines to line, and returns their number. Its error is ErrCut.
func each(f *framer, line Line) (handed int, err error) {
	for {
		data, tooLong, ok := f.next()
		switch {
		case tooLong:
			data = nil
		case !ok:
			return handed, nil
		case blank(data):
			continue
		}
		if !line(data, tooLong) {
			return handed, ErrCut
		}
		handed++
	}
}

func blank(data []byte) bool { return contract.NewReader(data).AtEnd() }

// Answer writes the pieces of the outbox as fast as the client takes them.
func (d *Conn) Answer(o *Outbox) error {
	for {
		p, last := o.take()
		if p.Data == nil {
			return nil
		}
		if err := d.write(*p.Data, last || p.Tasks != nil); err != nil {
			return err
		}
		d.cfg.Server.Recycle(p.Data)
	}
}

func (d *Conn) write(data []byte, flush bool) error {
	d.cfg.Server.Control(d.conn.SetWriteDeadline(time.Now().Add(d.cfg.Stall)))
	if _, err := d.out.Write(data); err != nil {
		return fmt.Errorf("%w: write answers: %w", ErrClient, err)
	}
	if flush {
		if err := d.conn.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return fmt.Errorf("%w: write answers: %w", ErrClient, err)
		}
	}
	// A deadline that passes between two writes would end an HTTP/2 stream.
	d.cfg.Server.Control(d.conn.SetWriteDeadline(time.Time{}))
	return nil
}

// AnswerWhole writes the only piece of the outbox. If the header was not sent, it includes the answer's length.
func (d *Conn) AnswerWhole(o *Outbox) error {
	p, _ := o.take()
	if p.Data == nil { // there was no line
		d.SendHead()
		return nil
	}
	d.head.Lock()
	defer d.head.Unlock()
	if !d.headed {
		d.headed = true
		d.out.Header().Set("Content-Length", strconv.Itoa(len(*p.Data)))
		d.out.WriteHeader(http.StatusOK)
	}
	if err := d.write(*p.Data, true); err != nil {
		return err
	}
	d.cfg.Server.Recycle(p.Data)
	return nil
}

// Close ends the use of the connection: the header is not sent any more. The connection must not be used after the
// handler.
func (d *Conn) Close() {
	d.head.Lock()
	defer d.head.Unlock()
	d.headed = true
}
