package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

const (
	// streamSilence is how long a stream may be silent: the service says every 15 seconds that it is there.
	streamSilence = 40 * time.Second
	// streamEnd is how long a stream may take to end in order.
	streamEnd = 5 * time.Second
	// streamCalm is how long a stream has lasted that says that nothing is wrong.
	streamCalm = time.Second
)

// stream has tasks come, from one node after the other, until ctx ends. The error is a refusal for good.
func (k *consumer) stream(ctx context.Context) error {
	at := rand.IntN(len(k.c.nodes.given)) // consumers spread
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		base := k.c.nodes.given[at].base
		err := k.streamFrom(ctx, base)
		var refusal *Error
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &refusal) && !refusal.transient():
			return err
		}
		k.o.Logger.Debug("a consumer's stream has ended", "queue", k.queue, "node", base, "err", err)
		at = (at + 1) % len(k.c.nodes.given)
		if failures++; time.Since(began) > streamCalm {
			failures = 1
		}
		if k.c.wait(ctx, k.c.pause(failures, err)) != nil {
			return nil
		}
	}
	return nil
}

// streamFrom has tasks come from a node until the stream ends. Nil: in order, as it does when ctx ends, or the node.
func (k *consumer) streamFrom(ctx context.Context, base string) error {
	alive, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	body, asks := io.Pipe()
	var asking sync.WaitGroup
	defer func() {
		cancel(nil)
		_ = body.Close() // a pipe's never fails
		asking.Wait()
	}()
	silence := time.AfterFunc(k.c.cfg.AttemptTimeout, func() { cancel(errSilent) })
	defer silence.Stop()
	path := base + queuePath(k.queue) + "/stream?lease=" + k.o.Lease.String()
	req, err := http.NewRequestWithContext(alive, http.MethodPost, path, body)
	if err != nil {
		return &unsendableError{err}
	}
	req.Header.Set("Content-Type", ndjsonType)
	k.forget()
	k.notify()
	asking.Go(func() { k.ask(alive, asks) })
	defer context.AfterFunc(ctx, func() { // no more is asked for, and what still comes is given back
		_ = asks.Close()
		time.AfterFunc(streamEnd, func() { cancel(errSilent) })
	})()
	resp, err := k.c.cfg.HTTPClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return readError(resp)
	}
	silence.Reset(streamSilence)
	err = k.readTasks(ctx, &heard{resp.Body, silence, streamSilence})
	if err != nil && errors.Is(context.Cause(alive), errSilent) {
		return fmt.Errorf("%s: %w", base, errSilent)
	}
	return err
}

// ask asks for as many tasks as there is room for, as it comes, until the stream ends. What is settled while a line is
// being written is asked for with the next.
func (k *consumer) ask(alive context.Context, asks *io.PipeWriter) {
	var b []byte
	for {
		select {
		case <-k.moved:
		case <-alive.Done():
			return
		}
		n := k.demand()
		if n == 0 {
			continue
		}
		b = append(contract.Close(contract.AppendInt(b[:0], contract.Credit, int64(n)), 0), '\n')
		if _, err := asks.Write(b); err != nil {
			return // the stream has ended, which its reader sees
		}
	}
}

// readTasks begins the tasks that come, until the stream ends.
func (k *consumer) readTasks(ctx context.Context, in io.Reader) error {
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		text, err := nextLine(lines)
		if errors.Is(err, io.EOF) && len(text) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if err := k.readLine(ctx, text); err != nil {
			return err
		}
	}
}

// readLine begins the task of a line, if it has one. Other lines are heartbeats, or problems with the consumer's own
// lines, which are returned.
func (k *consumer) readLine(ctx context.Context, text []byte) error {
	var j *job
	var refused *Error
	err := whole(text, func(r *contract.Reader) error {
		return r.Known("line", func(f contract.Field) error {
			switch f {
			case contract.Task:
				j = k.newJob()
				return j.task.read(r)
			case contract.Problem:
				refused = new(Error)
				return refused.read(r)
			}
			return r.Skip()
		})
	})
	switch {
	case err != nil && j != nil:
		j.cancel(nil)
		return err
	case err != nil:
		return err
	case refused != nil:
		return refused
	case j == nil:
		return nil
	case ctx.Err() != nil:
		k.giveBack(j)
	default:
		k.begin(j)
	}
	return nil
}
