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
	// streamSilence is the longest silence of a live stream: the service sends a heartbeat every 15 seconds.
	streamSilence = 40 * time.Second
	// streamEnd is the time for a stream's orderly end.
	streamEnd = 5 * time.Second
	// streamCalm is the length of a stream after which earlier failures do not count.
	streamCalm = time.Second
)

// stream receives tasks from one node after another, until ctx ends. The error is a final refusal.
func (k *consumer) stream(ctx context.Context) error {
	at := rand.IntN(len(k.c.nodes.given)) // spreads consumers over nodes
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

// streamFrom receives tasks from a node until the stream ends. A nil error means an orderly end, by ctx or by the node.
func (k *consumer) streamFrom(ctx context.Context, base string) error {
	alive, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	body, asks := io.Pipe()
	var asking sync.WaitGroup
	defer func() {
		cancel(nil)
		_ = body.Close() // a pipe's Close never fails
		asking.Wait()
	}()
	silence := time.AfterFunc(k.c.cfg.AttemptTimeout, func() { cancel(errSilent) })
	defer silence.Stop()
	path := base + k.c.path("queues", k.queue) + "/stream?lease=" + k.o.Lease.String()
	req, err := k.c.newRequest(alive, http.MethodPost, path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", ndjsonType)
	k.forget()
	k.notify()
	asking.Go(func() { k.ask(alive, asks) })
	defer context.AfterFunc(ctx, func() { // the client asks for no more, and gives back later tasks
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
	err = k.readTasks(ctx, &timedReader{resp.Body, silence, streamSilence})
	if err != nil && errors.Is(context.Cause(alive), errSilent) {
		return fmt.Errorf("%s: %w", base, errSilent)
	}
	return err
}

// ask asks for as many tasks as there are free handlers, whenever some become free, until the stream ends. Handlers
// that become free during a write are counted in the next line.
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
			return // readTasks sees the end of the stream
		}
	}
}

// readTasks starts the handlers of arriving tasks, until the stream ends.
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

// readLine starts the handler of a line's task, if the line has one. Other lines are heartbeats, or problems with the
// consumer's own lines, which are returned as errors.
func (k *consumer) readLine(ctx context.Context, text []byte) error {
	var j *job
	var refused *Error
	err := whole(text, func(r *contract.Reader) error {
		return readObject(r, "line", []member{
			{contract.Task, func() error {
				j = k.newJob()
				return j.task.read(r)
			}, 0},
			{contract.Problem, &refused, 0},
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
