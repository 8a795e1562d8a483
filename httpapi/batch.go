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
)

// stream is one batch under way.
type stream struct {
	s      *Server
	body   io.Reader
	out    io.Writer
	conn   *http.ResponseController
	parser parser
	intake *intake
	outbox *outbox
	idleAt atomic.Int64 // when the read under way gives up, in Unix nanoseconds
}

func (s *Server) batch(c echo.Context) error {
	r := c.Request()
	if _, err := parameters(r); err != nil {
		return err
	}
	if r.ContentLength != 0 {
		if err := checkType(r.Header, ndjsonType); err != nil {
			return err
		}
	}
	defer s.batches.Add(-1)
	if s.batches.Add(1) > int64(s.cfg.MaxBatches) {
		return tooMany("batches", s.cfg.MaxBatches)
	}
	t := &stream{
		s: s, body: r.Body, out: c.Response(), parser: *s.parser(r),
		conn:   http.NewResponseController(c.Response().Writer),
		intake: newIntake(s.cfg.BatchChunkLines, s.cfg.BatchChunkBytes),
		outbox: newOutbox(s.cfg.BatchAnswerBytes, 4*s.cfg.BatchChunkBytes, &s.memory),
	}
	defer t.outbox.release()
	t.open(c)
	if err := t.run(r.Context()); err != nil {
		s.logCut(err)
		panic(http.ErrAbortHandler) // the client must not take what it got for the whole answer
	}
	return nil
}

// logCut tells of a batch that did not end well. Clients leave all the time; anything else deserves to be seen.
func (s *Server) logCut(err error) {
	level := slog.LevelDebug
	var broken *panicError
	if errors.As(err, &broken) || problemOf(err).kind == internalError && !errors.Is(err, errClient) {
		level = slog.LevelError
	}
	s.cfg.Logger.Log(context.Background(), level, "batch cut", "error", err)
}

// open sends the head of the answer before any line is read: a client may wait for it.
func (t *stream) open(c echo.Context) {
	t.s.ignoreUnsupported(t.conn.EnableFullDuplex())
	w := c.Response()
	if c.Request().Header.Get("Expect") != "" {
		w.Writer.WriteHeader(http.StatusContinue) // some clients take any other status for a refusal of the body
	}
	w.Header().Set("Content-Type", ndjsonType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	t.s.ignoreUnsupported(t.conn.Flush())
	t.s.ignoreUnsupported(t.conn.SetWriteDeadline(time.Time{})) // the server's own is for single calls
}

// run reads, commits and answers until the client has sent and been answered everything. The three steps end together:
// the first error, or the client's leaving, wakes the others wherever they wait.
func (t *stream) run(request context.Context) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(request))
	defer cancel(nil)
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		t.abandon()
	})
	defer context.AfterFunc(request, func() {
		// The server ends a request's context at any failed read, one for idleness too; but an idle client is still there.
		if time.Now().UnixNano() < t.idleAt.Load() {
			cancel(errClient)
		}
	})()
	var steps sync.WaitGroup
	for _, step := range []func() error{t.read, func() error { return t.commit(ctx) }, t.answer} {
		steps.Go(func() {
			if err := guard(step); err != nil {
				cancel(err)
			}
		})
	}
	steps.Wait()
	if stop() {
		return nil
	}
	<-woken // nothing may touch the connection after the handler
	return context.Cause(ctx)
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

// panicError is a broken invariant in a batch's step.
type panicError struct {
	what  any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic in a batch: %v\n%s", e.what, e.stack) }

// abandon wakes all three steps, wherever they wait.
func (t *stream) abandon() {
	t.intake.abandon()
	t.outbox.abandon()
	past := time.Unix(1, 0)
	t.s.ignoreUnsupported(t.conn.SetReadDeadline(past))
	t.s.ignoreUnsupported(t.conn.SetWriteDeadline(past))
}

// errCut ends a step whose neighbour has ended with the real error; errClient marks one that the client or the network
// made.
var (
	errCut    = errors.New("the batch was cut")
	errClient = errors.New("the client is gone")
)

// read parses lines until the stream ends.
func (t *stream) read() error {
	f := &framer{limit: t.s.cfg.BodyBytes}
	for {
		idleAt := time.Now().Add(t.s.cfg.BatchIdle)
		t.idleAt.Store(idleAt.UnixNano())
		t.s.ignoreUnsupported(t.conn.SetReadDeadline(idleAt))
		n, err := t.body.Read(f.room())
		f.filled(n)
		t.parser.now = t.s.cfg.Now()
		if !t.parseLines(f) {
			return errCut
		}
		switch {
		case err == nil:
		case err == io.EOF:
			return t.endOfLines(f)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return t.idle()
		default:
			return fmt.Errorf("%w: read lines: %w", errClient, err)
		}
	}
}

func (t *stream) parseLines(f *framer) bool {
	for {
		data, tooLong, ok := f.next()
		switch {
		case !ok:
			return true
		case tooLong:
			ok = t.intake.put(line{refused: t.lineTooLong()})
		default:
			ok = t.parseLine(data)
		}
		if !ok {
			return false
		}
	}
}

// parseLine takes in one line; a blank one is none.
func (t *stream) parseLine(data []byte) bool {
	blank := scanner{data: data}
	if blank.peek() == 0 && blank.pos == len(data) {
		return true
	}
	return t.intake.put(t.parser.batchLine(data))
}

func (t *stream) lineTooLong() *problem {
	return &problem{kind: tooLarge, detail: "the line is too long", limit: fmt.Sprintf("%d bytes", t.s.cfg.BodyBytes)}
}

func (t *stream) endOfLines(f *framer) error {
	t.idleAt.Store(math.MaxInt64) // from now on the request's end is its client's leaving
	if !t.parseLine(f.rest()) {
		return errCut
	}
	t.intake.end()
	return nil
}

// idle ends a stream on which nothing comes: what came is answered, and one more line says why no more is taken.
func (t *stream) idle() error {
	ok := t.intake.put(line{refused: &problem{kind: bodyTimeout, detail: "no line came for too long; the batch ends here",
		limit: t.s.cfg.BatchIdle.String()}})
	if !ok {
		return errCut
	}
	t.intake.end()
	return nil
}

// answer writes what has been answered as fast as the client takes it.
func (t *stream) answer() error {
	for {
		piece, last := t.outbox.take()
		if piece == nil {
			return nil
		}
		if err := t.write(*piece, last); err != nil {
			return err
		}
		t.s.buffers.put(piece)
	}
}

func (t *stream) write(piece []byte, flush bool) error {
	t.s.ignoreUnsupported(t.conn.SetWriteDeadline(time.Now().Add(t.s.cfg.BatchStall)))
	if _, err := t.out.Write(piece); err != nil {
		return fmt.Errorf("%w: write answers: %w", errClient, err)
	}
	if flush {
		if err := t.conn.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return fmt.Errorf("%w: write answers: %w", errClient, err)
		}
	}
	// A deadline that passes between two writes would end an HTTP/2 stream.
	t.s.ignoreUnsupported(t.conn.SetWriteDeadline(time.Time{}))
	return nil
}
