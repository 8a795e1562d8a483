package httpapi

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/httpapi/stream"
)

// headPatience is for how long a client waits for the head of an answer that is to be sent whole.
const headPatience = time.Second

// workAtOnce commits and answers a batch of which all lines are there.
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
