package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/httpapi/stream"
)

// batch is one batch under way.
type batch struct {
	*stream.Conn
	s      *Server
	parser parser
	intake *stream.Intake[line]
	outbox *stream.Outbox
}

func (s *Server) batch(c echo.Context) error {
	r := c.Request()
	t := &batch{
		s: s, parser: *s.parser(r),
		intake: stream.NewIntake[line](s.cfg.BatchChunkLines, s.cfg.BatchChunkBytes),
		outbox: stream.NewOutbox(s.cfg.BatchAnswerBytes, 4*s.cfg.BatchChunkBytes, &s.memory),
	}
	defer t.outbox.Release()
	t.Conn = s.openLines(c, func() { t.parser.now = s.arrived() })
	abandon := func() { t.intake.Abandon(); t.outbox.Abandon() }
	if err := t.Perform(r.Context(), abandon, t.work); err != nil {
		s.logCut(err)
		panic(http.ErrAbortHandler) // the client must not take what it got for the whole answer
	}
	return nil
}

// gathering is for how long a batch of known length may come in before its first lines are worked on.
const gathering = 5 * time.Millisecond

// work reads lines, and beside that commits and answers what has come. A small batch that comes in one piece is
// committed and answered by this goroutine alone, in one write: most are, and the rest costs more than their lines.
func (t *batch) work(do func(stream.Step)) {
	var others sync.WaitGroup
	var once sync.Once
	beside := func() {
		once.Do(func() {
			do(t.sendHeadFirst)
			others.Go(func() { do(t.commit) })
			others.Go(func() { do(t.answerAll) })
		})
	}
	if !t.Small() {
		beside()
	}
	t.intake.OnFull(beside)
	gathered := time.AfterFunc(gathering, beside)
	do(t.readLines)
	gathered.Stop()
	once.Do(func() { t.workAtOnce(do) })
	others.Wait()
}

// readLines parses lines until the client ends the body, falls silent or sends a line over the limit. In the last two
// cases the lines so far are answered, and one more line of the answer says why the batch ends.
func (t *batch) readLines(context.Context) error {
	err := t.Lines(t.s.cfg.BatchIdle, t.parseLine)
	var refused *problem
	switch {
	case errors.Is(err, stream.ErrIdle):
		refused = &problem{kind: bodyTimeout, detail: "no line came for too long; the batch ends here",
			limit: t.s.cfg.BatchIdle.String()}
	case errors.Is(err, stream.ErrLong):
		refused = t.s.lineTooLong()
	case err != nil:
		return err
	}
	if refused != nil && !t.intake.Put(line{refused: refused}, 0) {
		return stream.ErrCut
	}
	t.intake.End()
	return nil
}

func (t *batch) parseLine(data []byte) bool {
	return t.intake.Put(t.parser.batchLine(data), len(data))
}

func (t *batch) sendHeadFirst(context.Context) error {
	t.SendHead()
	return nil
}

func (t *batch) answerAll(context.Context) error { return t.Answer(t.outbox) }

// mapHeader tells clients that know slots and leaders whether what they know is what this node believes.
const mapHeader = "Belfry-Map"

// openLines opens the connection of a call whose lines go both ways, and prepares the head of its answer.
func (s *Server) openLines(c echo.Context, arrived func()) *stream.Conn {
	conn := stream.New(c, stream.Config{
		LineBytes: s.cfg.BodyBytes, Stall: s.cfg.BatchStall, Arrived: arrived, Recycle: s.buffers.put,
		Control: s.ignoreUnsupported,
	})
	h := c.Response().Header()
	h.Set("Content-Type", ndjsonType)
	h.Set("Cache-Control", "no-store")
	h.Set(mapHeader, s.cfg.Backend.MapVersion())
	return conn
}

func (s *Server) lineTooLong() *problem {
	return &problem{kind: tooLarge, detail: "the line is too long; nothing is read from there on",
		limit: fmt.Sprintf("%d bytes", s.cfg.BodyBytes)}
}

// logCut tells of a stream that did not end well. Clients leave all the time; anything else deserves to be seen.
func (s *Server) logCut(err error) {
	level := slog.LevelDebug
	var broken *stream.PanicError
	if errors.As(err, &broken) || problemOf(err).kind == internalError && !errors.Is(err, stream.ErrClient) {
		level = slog.LevelError
	}
	s.cfg.Logger.Log(context.Background(), level, "stream cut", "err", err)
}
