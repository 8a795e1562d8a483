package httpapi

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
)

// batch is one batch under way.
type batch struct {
	*duplex
	parser parser
	intake *intake[line]
	outbox *outbox
}

func (s *Server) batch(c echo.Context) error {
	r := c.Request()
	t := &batch{
		duplex: s.newDuplex(c), parser: *s.parser(r),
		intake: newIntake[line](s.cfg.BatchChunkLines, s.cfg.BatchChunkBytes),
		outbox: newOutbox(s.cfg.BatchAnswerBytes, 4*s.cfg.BatchChunkBytes, &s.memory),
	}
	defer t.outbox.release()
	t.open(c)
	abandon := func() { t.intake.abandon(); t.outbox.abandon() }
	if err := t.perform(r.Context(), abandon, t.work); err != nil {
		s.logCut(err)
		panic(http.ErrAbortHandler) // the client must not take what it got for the whole answer
	}
	return nil
}

// gathering is for how long a batch of known length may come in before its first lines are worked on.
const gathering = 5 * time.Millisecond

// work reads lines, and beside that commits and answers what has come. A small batch that comes in one piece is
// committed and answered by this goroutine alone, in one write: most are, and the rest costs more than their lines.
func (t *batch) work(do func(step)) {
	var others sync.WaitGroup
	var once sync.Once
	beside := func() {
		once.Do(func() {
			do(t.sendHeadFirst)
			others.Go(func() { do(t.commit) })
			others.Go(func() { do(t.answerAll) })
		})
	}
	if t.length < 0 || t.length > blockBytes {
		beside()
	}
	t.intake.full = beside
	gathered := time.AfterFunc(gathering, beside)
	do(t.readLines)
	gathered.Stop()
	once.Do(func() { t.workAtOnce(do) })
	others.Wait()
}

// readLines parses lines until the client ends the body, falls silent or sends a line over the limit. In the last two
// cases the lines so far are answered, and one more line of the answer says why the batch ends.
func (t *batch) readLines(context.Context) error {
	err := t.lines(t.s.cfg.BatchIdle, t.parseLine)
	var refused *problem
	switch {
	case errors.Is(err, errIdle):
		refused = &problem{kind: bodyTimeout, detail: "no line came for too long; the batch ends here",
			limit: t.s.cfg.BatchIdle.String()}
	case errors.Is(err, errLong):
		refused = t.s.lineTooLong()
	case err != nil:
		return err
	}
	if refused != nil && !t.intake.put(line{refused: refused}, 0) {
		return errCut
	}
	t.intake.end()
	return nil
}

func (t *batch) parseLine(data []byte) bool {
	t.parser.now = t.read
	return t.intake.put(t.parser.batchLine(data), len(data))
}

func (t *batch) sendHeadFirst(context.Context) error {
	t.sendHead()
	return nil
}

func (t *batch) answerAll(context.Context) error { return t.answer(t.outbox) }
