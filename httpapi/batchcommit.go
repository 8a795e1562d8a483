package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// commit carries out what has been parsed, one commit at a time.
func (t *stream) commit(ctx context.Context) error {
	var spare []line
	for {
		lines, ok := t.intake.take(spare)
		if !ok {
			break
		}
		replies, err := t.do(ctx, commandsOf(lines))
		if err != nil {
			return err
		}
		if !t.outbox.put(t.answersTo(lines, replies)) {
			return errCut
		}
		clear(lines) // lets go of the commands before the list is filled again
		spare = lines
	}
	if ctx.Err() != nil {
		return errCut
	}
	t.outbox.end()
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

const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// do carries out commands, and those that were refused for overload again, with a growing pause, until none is or the
// client is gone. Order about one id holds, and a command can be handed over twice, by what Backend says about such
// refusals.
func (t *stream) do(ctx context.Context, cmds []*fsmpb.Command) ([]fsm.Reply, error) {
	replies, err := t.doOnce(ctx, cmds)
	for pause := firstPause; err == nil; pause = min(2*pause, lastPause) {
		refused := overloadedAmong(replies)
		if len(refused) == 0 {
			return replies, nil
		}
		t.s.metrics.retries.Inc()
		if err = wait(ctx, pause/2+rand.N(pause)); err == nil {
			err = t.again(ctx, cmds, replies, refused)
		}
	}
	return nil, err
}

func (t *stream) doOnce(ctx context.Context, cmds []*fsmpb.Command) ([]fsm.Reply, error) {
	if len(cmds) == 0 {
		return nil, nil
	}
	t.s.metrics.committed(len(cmds))
	ctx, cancel := context.WithTimeout(ctx, t.s.cfg.RequestTimeout)
	defer cancel()
	replies := t.s.cfg.Backend.Do(ctx, cmds)
	if len(replies) != len(cmds) {
		return nil, fmt.Errorf("the backend gave %d replies to %d commands", len(replies), len(cmds))
	}
	return replies, nil
}

func overloadedAmong(replies []fsm.Reply) []int {
	var refused []int
	for i, r := range replies {
		if r.Err != nil && errors.Is(r.Err, fsm.ErrOverloaded) {
			refused = append(refused, i)
		}
	}
	return refused
}

// again carries out the refused ones and puts their replies in place.
func (t *stream) again(ctx context.Context, cmds []*fsmpb.Command, replies []fsm.Reply, refused []int) error {
	part := make([]*fsmpb.Command, len(refused))
	for i, at := range refused {
		part[i] = cmds[at]
	}
	fresh, err := t.doOnce(ctx, part)
	if err != nil {
		return err
	}
	for i, at := range refused {
		replies[at] = fresh[i]
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answersTo writes a line for each line, in order.
func (t *stream) answersTo(lines []line, replies []fsm.Reply) *[]byte {
	piece := t.s.buffers.get()
	b, tally := *piece, statusTally{}
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
	*piece = b
	return piece
}

func (t *stream) logInternal(err error) {
	if err != nil && problemOf(err).kind == internalError {
		t.s.cfg.Logger.Error("batch line failed", "error", err)
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
