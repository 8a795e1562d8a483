package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/belfryhq/belfry/client"
)

// receive starts the receiver, which calls ended with its error when it ends.
func (r *run) receive(ctx context.Context, ended func(error)) error {
	if r.Webhook != "" {
		return r.listen(ctx, ended)
	}
	go func() {
		options := client.ConsumeOptions{Concurrency: consumers, Grace: time.Second, Logger: slog.New(slog.DiscardHandler)}
		ended(r.Receiver.Consume(ctx, r.Queue, options, func(_ context.Context, task *client.Leased) error {
			r.take(task.ID, task.FireAt)
			return nil
		}))
	}()
	return nil
}

// consumers is the number of tasks that are received at once.
const consumers = 1000

// take counts the receipt of a task, now.
func (r *run) take(id string, due time.Time) bool {
	at := r.clock.now()
	task := r.taskOf(id)
	if task >= 0 {
		r.ledger.received(task, due, at)
	}
	return task >= 0
}

// listen serves the webhook until the context ends.
func (r *run) listen(ctx context.Context, ended func(error)) error {
	addr, err := r.listenAddr()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for the webhook: %w", err)
	}
	server := &http.Server{Handler: http.HandlerFunc(r.webhook), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { ended(server.Serve(l)) }()
	return nil
}

// listenAddr returns the address to listen at.
func (c *Config) listenAddr() (string, error) {
	u, err := url.Parse(c.Webhook)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" {
		return "", fmt.Errorf("--webhook %q is not an http URL of this machine", c.Webhook)
	}
	if c.Listen != "" {
		return c.Listen, nil
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return ":" + port, nil
}

// maxBody bounds the body of a delivery that is read.
const maxBody = 1 << 20

// webhook takes a delivery. It refuses deliveries of other tasks, since anyone may call.
func (r *run) webhook(w http.ResponseWriter, req *http.Request) {
	due, err := client.ParseInstant(req.Header.Get("belfry-due"))
	if err != nil || !r.take(req.Header.Get("ce-subject"), due) {
		http.NotFound(w, req)
		return
	}
	_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, req.Body, maxBody))
	w.WriteHeader(http.StatusNoContent)
}

// Clock is an estimate of the difference between the cluster's clock and this machine's.
type Clock struct {
	Offset time.Duration // the cluster's minus this machine's
	Error  time.Duration // bound of the estimate's error: half of the shortest round trip, and a millisecond
}

// clockTries is the number of calls of an estimate. The one with the shortest round trip counts.
const clockTries = 10

// readClock estimates the cluster's clock as NTP does: a task due a delay after the receipt of a call tells the time of
// the receipt, which lies between the begin and the end of the call.
func (r *run) readClock(ctx context.Context) (Clock, error) {
	const later = time.Hour
	id := r.Queue + "-clock"
	if _, err := r.Receiver.Schedule(ctx, client.Task{ID: id, Queue: r.Queue, Delay: later}); err != nil {
		return Clock{}, err
	}
	best := Clock{Error: time.Hour}
	for range clockTries {
		began := time.Now()
		task, err := r.Receiver.Patch(ctx, id, client.Patch{Delay: later})
		if err != nil {
			return Clock{}, fmt.Errorf("read the clock: %w", err)
		}
		trip := time.Since(began)
		best = best.nearer(began, trip, task.FireAt.Add(-later))
	}
	_, err := r.Receiver.Cancel(ctx, id)
	return best, err
}

// nearer returns the better one of c and the estimate of one round trip, during which the cluster's clock was read.
func (c Clock) nearer(began time.Time, trip time.Duration, read time.Time) Clock {
	if e := trip/2 + time.Millisecond; e < c.Error { // due times are whole milliseconds
		return Clock{Offset: read.Sub(began.Add(trip / 2)), Error: e}
	}
	return c
}

// now returns the cluster's time.
func (c Clock) now() time.Time { return time.Now().Add(c.Offset) }

var errTaken = errors.New("the queue has a policy or tasks already: the measurement would take them")
