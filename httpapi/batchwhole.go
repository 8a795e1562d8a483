package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// headPatience is for how long a client waits for the head of an answer that is to be sent whole.
const headPatience = time.Second

// workAtOnce commits and answers a batch of which all lines are there.
func (t *batch) workAtOnce(do func(step)) {
	late := time.AfterFunc(headPatience, func() { do(t.sendHeadFirst) })
	do(func(ctx context.Context) error {
		if ctx.Err() != nil {
			return errCut
		}
		if err := t.commit(ctx); err != nil {
			return err
		}
		return t.answerWhole()
	})
	late.Stop()
	t.head.Lock()
	defer t.head.Unlock()
	t.headed = true // nothing may touch the connection after the handler
}

// answerWhole writes the only piece that the outbox holds, and says before how long it is, if the head is not out yet.
func (t *batch) answerWhole() error {
	p, _ := t.outbox.take()
	if p.data == nil { // there was no line
		t.sendHead()
		return nil
	}
	t.head.Lock()
	defer t.head.Unlock()
	if !t.headed {
		t.headed = true
		t.out.Header().Set("Content-Length", strconv.Itoa(len(*p.data)))
		t.out.WriteHeader(http.StatusOK)
	}
	if err := t.write(*p.data, true); err != nil {
		return err
	}
	t.s.buffers.put(p.data)
	return nil
}
