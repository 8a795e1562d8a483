package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/httpapi/internal/stream"
	"github.com/belfryhq/belfry/internal/admission"
	"github.com/belfryhq/belfry/internal/contract"
)

// batchService answers POST /v1/batch.
type batchService struct {
	*core
	commits *commits
}

// batch is one batch in progress.
type batch struct {
	*stream.Conn
	s      *batchService
	call   *call
	parser parser
	intake *stream.Intake[line]
	outbox *stream.Outbox
	turn   *admission.Turn // of the parsing

	outside int // lines so far that the caller's grants do not reach
}

func (s *batchService) serve(c echo.Context) error {
	cl := callOf(c)
	t := &batch{
		s: s, call: cl, parser: *s.parser(cl), turn: s.work.Turn(cl.namespace),
		intake: stream.NewIntake[line](s.bounds.BatchChunkLines, s.bounds.BatchChunkBytes),
		outbox: stream.NewOutbox(s.bounds.BatchAnswerBytes, 4*s.bounds.BatchChunkBytes, s.memoryOf(c)),
	}
	defer t.outbox.Release()
	t.Conn = s.openLines(c, t)
	t.intake.OnWait(t.turn.Pause)
	abandon := func() { t.intake.Abandon(); t.outbox.Abandon() }
	if err := t.Perform(c.Request().Context(), abandon, t.work); err != nil {
		s.logCut(err)
		panic(http.ErrAbortHandler) // the client must not take the part for the whole answer
	}
	return nil
}

// Reading ends the turn of the parsing.
func (t *batch) Reading() { t.turn.Pause() }

// Arrived notes the arrival of the next lines.
func (t *batch) Arrived() { t.parser.now = t.s.arrived() }

// Part refuses the rest of the batch of a client that may not go on.
func (t *batch) Part() { t.intake.EndWith(line{refused: t.call.ending("batch")}) }

// gathering is the time for a batch of known length to arrive before its first lines are committed.
const gathering = 5 * time.Millisecond

// work reads lines, and commits and answers them in parallel goroutines. A small batch that arrives in one piece is
// committed and answered by this goroutine alone, in one write: most batches are small, and goroutines would cost more
// than their lines.
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

// readLines parses lines until the client ends the body, falls silent or sends a line without an end. In the last two
// cases the lines so far are answered. The last line of the answer gives the reason for the end.
func (t *batch) readLines(context.Context) error {
	defer t.turn.Pause()
	err := t.Lines(t.s.bounds.BatchIdle, t.parseLine)
	var refused *problem
	switch {
	case errors.Is(err, stream.ErrIdle):
		refused = &problem{kind: bodyTimeout, detail: "no line came for too long; the batch ends here",
			limit: t.s.bounds.BatchIdle.String()}
	case errors.Is(err, stream.ErrLong): // the line is answered
	case errors.Is(err, stream.ErrParted):
		return nil // the intake has its last line
	case err != nil:
		return err
	}
	if refused != nil && !t.intake.Put(line{refused: refused}, 0) {
		return stream.ErrCut
	}
	t.intake.End()
	return nil
}

func (t *batch) parseLine(data []byte, tooLong bool) bool {
	if tooLong {
		return t.intake.Put(line{refused: t.s.lineTooLong()}, 0)
	}
	t.turn.Work(len(data))
	l := t.parser.batchLine(data)
	if l.cmd != nil {
		err := t.call.checkCommand(l.cmd)
		if err != nil {
			t.noteOutside()
		} else {
			err = t.s.admitCommand(t.call.life(), t.call, l.cmd)
		}
		if err != nil {
			l = line{id: l.id, refused: problemOf(err)}
		}
	}
	return t.intake.Put(l, len(data))
}

// The bounds of lines that the caller's grants do not reach.
const (
	freeOutside = 1000             // lines of one batch without a wait
	outsideTime = time.Millisecond // wait at each further line
)

// noteOutside counts a line that the caller's grants do not reach, and waits for outsideTime beyond freeOutside lines.
// Without the wait nothing would slow a caller down that probes for ids, since a refused line needs no commit.
func (t *batch) noteOutside() {
	if t.outside++; t.outside <= freeOutside {
		return
	}
	t.turn.Pause()
	timer := time.NewTimer(outsideTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.call.life().Done():
	}
}

func (t *batch) sendHeadFirst(context.Context) error {
	t.SendHead()
	return nil
}

func (t *batch) answerAll(context.Context) error { return t.Answer(t.outbox) }

// mapHeader is the header with the version of this node's map, so that clients know whether their own map is current.
const mapHeader = "Belfry-Map"

// openLines opens the connection of a call whose lines go both ways, and prepares the header of its answer.
func (s *core) openLines(c echo.Context, user stream.User) *stream.Conn {
	conn := stream.New(c, stream.Config{
		Server: lineServer{s}, User: user, LineBytes: s.bounds.BodyBytes, Stall: s.bounds.BatchStall,
		Lost: callOf(c).right.Lost(), Grace: 2 * lastWords,
	})
	h := c.Response().Header()
	h.Set("Content-Type", ndjsonType)
	h.Set("Cache-Control", "no-store")
	h.Set(mapHeader, s.tasks.MapVersion())
	return conn
}

// lineServer is a server whose calls have lines that go both ways.
type lineServer struct{ s *core }

func (l lineServer) Recycle(data *[]byte) { l.s.buffers.put(data) }

func (l lineServer) Control(err error) { l.s.ignoreUnsupported(err) }

func (s *core) lineTooLong() *problem {
	return &problem{kind: tooLarge, detail: "the line is too long",
		limit: fmt.Sprintf("%d bytes", s.bounds.BodyBytes)}
}

// logCut logs a stream that did not end well. A client's leaving is ordinary; other errors are logged as errors.
func (s *core) logCut(err error) {
	level := slog.LevelDebug
	var broken *stream.PanicError
	if errors.As(err, &broken) || problemOf(err).kind == internalError && !errors.Is(err, stream.ErrClient) {
		level = slog.LevelError
	}
	s.logger.Log(context.Background(), level, "stream cut", "err", err)
}

// commit commits parsed lines, one commit at a time.
func (t *batch) commit(ctx context.Context) error {
	var spare []line
	for {
		lines, ok := t.intake.Take(spare)
		if !ok {
			break
		}
		replies, err := t.commitAll(ctx, commandsOf(lines))
		if err != nil {
			return err
		}
		if !t.outbox.Put(stream.Piece{Data: t.answersTo(lines, replies)}) {
			return stream.ErrCut
		}
		clear(lines) // frees the commands before the list is filled again
		spare = lines
	}
	if ctx.Err() != nil {
		return stream.ErrCut
	}
	t.outbox.End()
	return nil
}

// commitAll commits commands, in parts while other namespaces call too. The commands that are left when the caller
// loses its right are refused.
func (t *batch) commitAll(ctx context.Context, cmds []*fsmpb.Command) (replies []task.Reply, err error) {
	waiting, cancel := t.call.right.Within(ctx, 0)
	defer cancel()
	err = t.s.awaitSchedules(waiting, t.call, cmds)
	t.s.metrics.committed(len(cmds))
	for len(cmds) > 0 {
		if refusal := t.call.right.Refusal(); refusal != nil {
			return append(replies, refusals(len(cmds), refusal)...), nil
		}
		if err != nil {
			return nil, err
		}
		var part []task.Reply
		part, err = t.commitPart(ctx, waiting, cmds)
		replies = append(replies, part...)
		cmds = cmds[len(part):]
	}
	return replies, nil
}

// commitPart commits as many of the commands as the node has room for.
func (t *batch) commitPart(ctx, waiting context.Context, cmds []*fsmpb.Command) ([]task.Reply, error) {
	n, done, err := t.s.commits.begin(waiting, t.call.namespace, len(cmds))
	if err != nil {
		return nil, stream.ErrCut
	}
	defer done()
	return t.s.doFor(ctx, t.call, cmds[:n:n], patiently)
}

func refusals(n int, err error) []task.Reply {
	return slices.Repeat([]task.Reply{{Err: err}}, n)
}

// commandsOf returns the commands of the lines that have one. The backend keeps the list.
func commandsOf(lines []line) []*fsmpb.Command {
	cmds := make([]*fsmpb.Command, 0, len(lines))
	for _, l := range lines {
		if l.cmd != nil {
			cmds = append(cmds, l.cmd)
		}
	}
	return cmds
}

// answerBytes is the price of an answer's line at the gate: it costs about a fifth of the parsing of a line.
const answerBytes = 50

// answersTo returns a line of the answer for each line, in order.
func (t *batch) answersTo(lines []line, replies []task.Reply) *[]byte {
	t.s.work.Enter(t.call.namespace, len(lines)*answerBytes)
	defer t.s.work.Leave(t.call.namespace)
	buffer := t.s.buffers.get()
	b, tally := *buffer, statusTally{}
	for _, l := range lines {
		var status int
		if l.refused != nil {
			b, status = appendRefusal(b, l.id, l.refused)
			t.note(l.refused)
		} else {
			b, status = appendReply(b, l.id, replies[0])
			t.note(replies[0].Err)
			replies = replies[1:]
		}
		tally.count(status, t.s.metrics)
	}
	tally.flush(t.s.metrics)
	*buffer = b
	return buffer
}

// note logs a line that failed inside, and records one that was refused because of its caller.
func (t *batch) note(err error) {
	if err == nil {
		return
	}
	p := problemOf(err)
	t.s.metrics.refused(p)
	if p.kind == internalError {
		t.s.logger.Error("batch line failed", "err", err)
	}
	_ = t.s.noteRefusal(t.call, t.call.caller, err) // returns err
}

// statusTally counts runs of equal statuses, so that a metric is updated once per run and not once per line.
type statusTally struct{ status, n int }

func (c *statusTally) count(status int, m *metrics) {
	if status != c.status {
		c.flush(m)
		c.status = status
	}
	c.n++
}

func (c *statusTally) flush(m *metrics) {
	if c.n > 0 {
		m.line(c.status, c.n)
	}
	c.n = 0
}

// headPatience is how long a client waits for the header of an answer that is sent whole.
const headPatience = time.Second

// workAtOnce commits and answers a batch whose lines have all arrived.
func (t *batch) workAtOnce(do func(stream.Step)) {
	late := time.AfterFunc(headPatience, func() { do(t.sendHeadFirst) })
	do(func(ctx context.Context) error {
		if ctx.Err() != nil {
			return stream.ErrCut
		}
		if err := t.commit(ctx); err != nil {
			return err
		}
		return t.AnswerWhole(t.outbox)
	})
	late.Stop()
	t.Close()
}

// line is one line of a batch: a command, or the reason for its absence.
type line struct {
	id      string
	cmd     *fsmpb.Command // nil if refused
	refused *problem
}

// batchLine reads one line. Its call hashes like the single call with the same meaning.
func (p *parser) batchLine(data []byte) line {
	d, err := p.parse(data, &contract.LineObject)
	if errors.Is(err, errPatchLine) || err != nil && textIn(data, contract.Op) == "patch" {
		d, err = p.patch(data, &contract.PatchLineObject)
	}
	if err == nil {
		err = p.lineCommand(d)
	}
	if err == nil {
		d.command.msg.Namespace = scopeOf(p.namespace)
		return line{id: d.command.msg.Id, cmd: d.command.finish()}
	}
	return line{id: textIn(data, contract.ID), refused: problemOf(err)}
}

// errPatchLine ends the reading of a line as another operation, since a patch's members have other meanings.
var errPatchLine = errors.New("the line is a patch")

// lineOp reads the operation of a line. It refuses a patch unless the line is read as one.
func (d *draft) lineOp() (string, error) {
	op, err := d.r.Text("op")
	if err == nil && op == "patch" && d.patch == nil {
		err = errPatchLine
	}
	return op, err
}

func (p *parser) lineCommand(d *draft) error {
	fields, ok := opFields(d.op)
	switch {
	case !d.seen.Has(contract.Op):
		return &task.FieldError{Field: "op", Detail: "is absent"}
	case !ok:
		detail := fmt.Sprintf("is %q and must be schedule, cancel, touch, fire or patch", contract.Clip(d.op))
		return &task.FieldError{Field: "op", Detail: detail}
	case !d.seen.Has(contract.ID):
		return &task.FieldError{Field: "id", Detail: "is absent; only POST /v1/tasks makes one"}
	}
	check := checkTaskID
	if d.op == "schedule" || d.command.orSchedule != nil {
		check = checkNewID
	}
	if err := check("id", d.command.msg.Id); err != nil {
		return err
	}
	if extra := d.seen &^ fields; extra != 0 {
		return &task.FieldError{Field: extra.First().String(), Detail: "is not a field of " + d.op}
	}
	switch d.op {
	case "schedule":
		return p.asSchedule(d, false)
	case "touch":
		return p.asTouch(d)
	case "cancel":
		p.asCancel(d)
	case "fire":
		p.asFire(d)
	}
	return nil
}

func opFields(op string) (contract.Set, bool) {
	switch op {
	case "schedule":
		return contract.HeadFields | contract.PutFields, true
	case "touch":
		return contract.HeadFields | contract.TouchFields, true
	case "cancel", "fire":
		return contract.HeadFields, true
	case "patch":
		return contract.HeadFields | contract.PatchFields, true
	}
	return 0, false
}

var errFound = errors.New("found")

// textIn returns a member of a refused line, such as its id for the answer, or "" if the member cannot be read.
func textIn(data []byte, member contract.Field) (found string) {
	r := contract.NewReader(data)
	err := r.Each("line", func(name []byte) error {
		if contract.FieldOf(name) != member {
			return r.Skip()
		}
		text, err := r.Text(member.String())
		if err == nil {
			found, err = text, errFound
		}
		return err
	})
	if !errors.Is(err, errFound) {
		return ""
	}
	return found
}

// appendReply appends the answer to one line and returns its status.
func appendReply(b []byte, id string, reply task.Reply) ([]byte, int) {
	if reply.Err != nil {
		return appendRefusal(b, id, problemOf(reply.Err))
	}
	r := reply.Result
	if p := resultProblem(r); p != nil {
		return appendRefusal(b, id, p)
	}
	status, begin := statusOf(r.Code), len(b)
	b = appendHead(b, id, status)
	b = contract.AppendUint(b, contract.Revision, r.Revision)
	b = appendPrevious(appendOutcome(b, r.Outcome), r.Previous)
	return append(contract.Close(b, begin), '\n'), status
}

func appendRefusal(b []byte, id string, p *problem) ([]byte, int) {
	begin := len(b)
	b = appendHead(b, id, p.status)
	b = appendProblem(contract.AppendName(b, contract.Problem), p)
	return append(contract.Close(b, begin), '\n'), p.status
}

func appendHead(b []byte, id string, status int) []byte {
	return contract.AppendUint(contract.AppendText(b, contract.ID, id), contract.Status, uint64(status))
}
