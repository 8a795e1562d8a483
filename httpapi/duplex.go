package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/internal/contract"
)

// duplex is a connection on which lines go both ways at once. Steps of its user read, work and write beside each
// other, and end together.
type duplex struct {
	s      *Server
	body   io.Reader
	length int64 // of the body; -1: not known
	out    *echo.Response
	conn   *http.ResponseController
	read   arrival      // of the lines in hand
	idleAt atomic.Int64 // when the read under way gives up, in Unix nanoseconds
	unread bool         // the client may still be sending after the last read

	head   sync.Mutex // held while the answer's head is written
	headed bool
}

// step is a part of the work on a connection. Its error ends all of it, as does the context.
type step func(context.Context) error

func (s *Server) newDuplex(c echo.Context) *duplex {
	d := &duplex{
		s: s, body: c.Request().Body, length: c.Request().ContentLength,
		out: c.Response(), conn: http.NewResponseController(c.Response().Writer),
	}
	d.idleAt.Store(math.MaxInt64)
	return d
}

// mapHeader tells clients that know slots and leaders whether what they know is what this node believes.
const mapHeader = "Belfry-Map"

// open prepares the head of the answer.
func (d *duplex) open(c echo.Context) {
	d.s.ignoreUnsupported(d.conn.EnableFullDuplex())
	if c.Request().Header.Get("Expect") != "" {
		d.out.Writer.WriteHeader(http.StatusContinue) // some clients take any other status for a refusal of the body
	}
	d.out.Header().Set("Content-Type", ndjsonType)
	d.out.Header().Set("Cache-Control", "no-store")
	d.out.Header().Set(mapHeader, d.s.cfg.Backend.MapVersion())
	d.s.ignoreUnsupported(d.conn.SetWriteDeadline(time.Time{})) // the server's own is for single calls
}

// sendHead sends it, unless that was done, before any line is answered: a client may wait for it.
func (d *duplex) sendHead() {
	d.head.Lock()
	defer d.head.Unlock()
	if !d.headed {
		d.headed = true
		d.out.WriteHeader(http.StatusOK)
		d.s.ignoreUnsupported(d.conn.Flush())
	}
}

// run does all steps beside each other until each has ended.
func (d *duplex) run(request context.Context, abandon func(), steps ...step) error {
	return d.perform(request, abandon, func(do func(step)) {
		var all sync.WaitGroup
		for _, s := range steps {
			all.Go(func() { do(s) })
		}
		all.Wait()
	})
}

// perform works through steps, each with do. The first error, or the client's leaving, ends the steps' context, calls
// abandon, and wakes reads and writes wherever they wait.
func (d *duplex) perform(request context.Context, abandon func(), work func(do func(step))) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(request))
	defer cancel(nil)
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		abandon()
		past := time.Unix(1, 0)
		d.s.ignoreUnsupported(d.conn.SetReadDeadline(past))
		d.s.ignoreUnsupported(d.conn.SetWriteDeadline(past))
	})
	defer context.AfterFunc(request, func() {
		// The server ends a request's context at any failed read, one for idleness too; but an idle client is still there.
		if time.Now().UnixNano() < d.idleAt.Load() {
			cancel(errClient)
		}
	})()
	work(func(s step) {
		if err := guard(func() error { return s(ctx) }); err != nil {
			cancel(err)
		}
	})
	if stop() {
		d.leaveUnread()
		return nil
	}
	<-woken // nothing may touch the connection after the handler
	return context.Cause(ctx)
}

// leaveUnread lets the HTTP server close the connection of a client that may still be sending. The server looks for the
// body's end within 256 KiB. Only if it has seen that much does it wait a little for its answer to be read before it
// closes, so it may look for a moment.
func (d *duplex) leaveUnread() {
	if d.unread {
		d.s.ignoreUnsupported(d.conn.SetReadDeadline(time.Now().Add(lingerQuiet)))
	}
}

// guard turns a panic into an error: these goroutines are none that the HTTP server watches.
func guard(step func() error) (err error) {
	defer func() {
		if what := recover(); what != nil {
			err = &panicError{what: what, stack: debug.Stack()}
		}
	}()
	return step()
}

// panicError is a broken invariant in a stream's step.
type panicError struct {
	what  any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic in a stream: %v\n%s", e.what, e.stack) }

// errCut ends a step whose neighbour has ended with the real error; errClient marks one that the client or the network
// made; errIdle says that no line came for the time given, and errLong that one is over the limit.
var (
	errCut    = errors.New("the stream was cut")
	errClient = errors.New("the client is gone")
	errIdle   = errors.New("no line came for too long")
	errLong   = errors.New("a line is over the limit")
)

// lines hands each line of the client to line, without its end, until the client ends. Blank lines are skipped. idle
// bounds the time until the next line is whole; 0 means no bound. The error is errCut when line returns false, and
// errLong at a line over the limit, of which no more is read, since it may never end.
func (d *duplex) lines(idle time.Duration, line func(data []byte) bool) error {
	f := newFramer(d.s.cfg.BodyBytes, d.length)
	d.awaitLine(idle)
	for {
		n, err := d.body.Read(f.room())
		f.filled(n)
		d.read = d.s.arrived()
		handed, cut := each(f, line)
		if handed > 0 {
			d.awaitLine(idle)
		}
		switch {
		case errors.Is(cut, errLong):
			d.idleAt.Store(0)
			d.unread = true
			return cut
		case cut != nil:
			return cut
		}
		switch {
		case err == nil:
		case err == io.EOF:
			d.idleAt.Store(math.MaxInt64) // from now on the request's end is its client's leaving
			if rest := f.rest(); !blank(rest) && !line(rest) {
				return errCut
			}
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return errIdle
		default:
			return fmt.Errorf("%w: read lines: %w", errClient, err)
		}
	}
}

// awaitLine gives the client this long for its next line, unless it is 0.
func (d *duplex) awaitLine(idle time.Duration) {
	if idle > 0 {
		idleAt := time.Now().Add(idle)
		d.idleAt.Store(idleAt.UnixNano())
		d.s.ignoreUnsupported(d.conn.SetReadDeadline(idleAt))
	}
}

// stopReading wakes the read under way. That this fails is no sign of the client's leaving.
func (d *duplex) stopReading() {
	d.idleAt.Store(0)
	d.s.ignoreUnsupported(d.conn.SetReadDeadline(time.Unix(1, 0)))
}

// each hands over the whole lines that the framer has, and tells how many. Its error is errCut or errLong.
func each(f *framer, line func(data []byte) bool) (handed int, err error) {
	for {
		data, tooLong, ok := f.next()
		switch {
		case tooLong:
			return handed, errLong
		case !ok:
			return handed, nil
		case blank(data):
			continue
		case !line(data):
			return handed, errCut
		}
		handed++
	}
}

func blank(data []byte) bool { return contract.NewReader(data).AtEnd() }

func (s *Server) lineTooLong() *problem {
	return &problem{kind: tooLarge, detail: "the line is too long; nothing is read from there on",
		limit: fmt.Sprintf("%d bytes", s.cfg.BodyBytes)}
}

// answer writes what is in the outbox as fast as the client takes it.
func (d *duplex) answer(o *outbox) error {
	for {
		p, last := o.take()
		if p.data == nil {
			return nil
		}
		if err := d.write(*p.data, last || p.tasks != nil); err != nil {
			return err
		}
		d.s.buffers.put(p.data)
	}
}

func (d *duplex) write(data []byte, flush bool) error {
	d.s.ignoreUnsupported(d.conn.SetWriteDeadline(time.Now().Add(d.s.cfg.BatchStall)))
	if _, err := d.out.Write(data); err != nil {
		return fmt.Errorf("%w: write answers: %w", errClient, err)
	}
	if flush {
		if err := d.conn.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return fmt.Errorf("%w: write answers: %w", errClient, err)
		}
	}
	// A deadline that passes between two writes would end an HTTP/2 stream.
	d.s.ignoreUnsupported(d.conn.SetWriteDeadline(time.Time{}))
	return nil
}

// logCut tells of a stream that did not end well. Clients leave all the time; anything else deserves to be seen.
func (s *Server) logCut(err error) {
	level := slog.LevelDebug
	var broken *panicError
	if errors.As(err, &broken) || problemOf(err).kind == internalError && !errors.Is(err, errClient) {
		level = slog.LevelError
	}
	s.cfg.Logger.Log(context.Background(), level, "stream cut", "err", err)
}
