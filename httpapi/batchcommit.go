package httpapi

import (
	"context"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/httpapi/stream"
)

// commit carries out what has been parsed, one commit at a time.
func (t *batch) commit(ctx context.Context) error {
	var spare []line
	for {
		lines, ok := t.intake.Take(spare)
		if !ok {
			break
		}
		cmds := commandsOf(lines)
		t.s.metrics.committed(len(cmds))
		replies, err := t.s.doPatiently(ctx, cmds)
		if err != nil {
			return err
		}
		if !t.outbox.Put(stream.Piece{Data: t.answersTo(lines, replies)}) {
			return stream.ErrCut
		}
		clear(lines) // lets go of the commands before the list is filled again
		spare = lines
	}
	if ctx.Err() != nil {
		return stream.ErrCut
	}
	t.outbox.End()
	return nil
}

// commandsOf lists the commands of the lines that have one. The list is the backend's to keep.
func commandsOf(lines []line) []*fsmpb.Command {
	cmds := make([]*fsmpb.Command, 0, len(lines))
	for _, l := range lines {
		if l.cmd != nil {
			cmds = append(cmds, l.cmd)
		}
	}
	return cmds
}

// answersTo writes a line for each line, in order.
func (t *batch) answersTo(lines []line, replies []task.Reply) *[]byte {
	buffer := t.s.buffers.get()
	b, tally := *buffer, statusTally{}
	for _, l := range lines {
		var status int
		if l.refused != nil {
			b, status = appendRefusal(b, l.id, l.refused)
		} else {
			b, status = appendReply(b, l.id, replies[0])
			t.logInternal(replies[0].Err)
			replies = replies[1:]
		}
		tally.count(status, t.s.metrics)
	}
	tally.flush(t.s.metrics)
	*buffer = b
	return buffer
}

func (t *batch) logInternal(err error) {
	if err != nil && problemOf(err).kind == internalError {
		t.s.cfg.Logger.Error("batch line failed", "err", err)
	}
}

// statusTally counts runs of one status, so that a metric is touched once a run and not once a line.
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
