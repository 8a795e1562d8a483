package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
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
		b = append(strconv.AppendInt(append(b[:0], `{"credit":`...), int64(n), 10), "}\n"...)
		if _, err := asks.Write(b); err != nil {
			return // the stream has ended, which its reader sees
		}
	}
}

var taskHead = []byte(`{"task":`)

// readTasks begins the tasks that come, until the stream ends.
func (k *consumer) readTasks(ctx context.Context, r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		text, err := nextLine(in)
		if errors.Is(err, io.EOF) && len(text) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(text, taskHead) {
			if err := k.readOther(text); err != nil {
				return err
			}
			continue
		}
		j := k.newJob()
		if err := decodeTaskLine(text[len(taskHead):], &j.task); err != nil {
			j.cancel(nil)
			return &garbledError{err}
		}
		if ctx.Err() != nil {
			k.giveBack(j)
			continue
		}
		k.begin(j)
	}
}

// decodeTaskLine reads what follows {"task": in a line.
func decodeTaskLine(text []byte, l *Leased) error {
	rest, err := decodeLeased(text, l)
	if err == nil && (len(rest) == 0 || rest[0] != '}') {
		err = errMalformed
	}
	return err
}

// readOther reads a line that is no task: a heartbeat, or a problem with what was asked for.
func (k *consumer) readOther(text []byte) error {
	var refused *problem
	_, err := members(text, func(name, value []byte) (err error) {
		if string(name) == "problem" {
			refused, err = decodeProblem(value)
		}
		return err
	})
	if err == nil && refused != nil {
		err = refused.asError(refused.Status)
	}
	return err
}
