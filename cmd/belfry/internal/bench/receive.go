package bench

import (
	"context"
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
