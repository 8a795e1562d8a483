package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// BatchLines sends operations as lines of JSON, in the format of POST /v1/batch. It calls take with each line of the
// answer as it arrives, in the order of the operations; take must not keep the line. Lines go out as they are read from
// in, so both ends may be slow. BatchLines returns once all lines are answered, or when take returns an error.
//
// Unlike Batch, it sends each line once, to the first address that accepts the connection. ErrUnknown means that the
// answer broke off: unanswered lines may have been carried out. Lines with a "key" of their own can be sent again.
func (c *Client) BatchLines(ctx context.Context, in io.Reader, take func(answer []byte) error) error {
	failed := &callError{method: http.MethodPost, about: c.conn.root + "/batch"}
	for _, node := range c.conn.nodes.given {
		err := c.conn.batchLines(ctx, node.base, in, take)
		if err == nil || !neverSent(err) {
			return err
		}
		failed.add(err)
	}
	return failed
}

func (c *conn) batchLines(ctx context.Context, base string, in io.Reader, take func([]byte) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := newQuiet(c.cfg.Timeout, func() { cancel(errSilent) })
	defer quiet.stop()
	body := io.NopCloser(&quietInput{in, quiet})
	req, err := c.newRequest(ctx, http.MethodPost, base+c.root+"/batch", body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", ndjsonType)
	resp, err := c.cfg.HTTPClient.Do(req)
	if err != nil {
		return brokenOff(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // read as far as needed
	if resp.StatusCode != http.StatusOK {
		return readError(resp)
	}
	answers := bufio.NewReaderSize(resp.Body, resultsBuffer)
	for {
		text, err := nextLine(answers)
		if errors.Is(err, io.EOF) && len(text) == 0 {
			return nil
		}
		if err != nil {
			return brokenOff(ctx, err)
		}
		quiet.restart()
		if err := take(text); err != nil {
			return err
		}
	}
}

// brokenOff returns the error of an answer that broke off, after which lines may have been carried out, or err itself
// if none was sent.
func brokenOff(ctx context.Context, err error) error {
	if neverSent(err) {
		return err
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return fmt.Errorf("%w: the answer to the batch broke off: %w", ErrUnknown, err)
}

// quiet calls a function after too long a silence. It rests while the input has no line to send, since there may be no
// answer due then.
type quiet struct {
	limit time.Duration

	mu      sync.Mutex
	timer   *time.Timer
	resting bool
}

func newQuiet(limit time.Duration, out func()) *quiet {
	return &quiet{limit: limit, timer: time.AfterFunc(limit, out)}
}

func (q *quiet) restart() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.resting {
		q.timer.Reset(q.limit)
	}
}

func (q *quiet) rest(resting bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.resting = resting; resting {
		q.timer.Stop()
	} else {
		q.timer.Reset(q.limit)
	}
}

func (q *quiet) stop() { q.rest(true) }

// quietInput rests its quiet while it waits for input.
type quietInput struct {
	in    io.Reader
	quiet *quiet
}

func (i *quietInput) Read(p []byte) (int, error) {
	i.quiet.rest(true)
	defer i.quiet.rest(false)
	return i.in.Read(p)
}
