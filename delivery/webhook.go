package delivery

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
)

// Webhook delivers tasks by HTTP. Its methods may be called concurrently.
type Webhook struct {
	cfg        Config
	transports transports
	metrics    *metrics
	closed     atomic.Bool
}

// New makes a Webhook. It returns an error for an invalid Config, or if the metrics are already registered.
func New(cfg Config) (*Webhook, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	return &Webhook{cfg: cfg, transports: transports{cfg: cfg, plain: newTransport(cfg, nil)}, metrics: m}, nil
}

// newTransport returns a transport that shows a certificate to receivers who ask for one; nil: it has none.
func newTransport(cfg Config, certificate *tls.Certificate) *http.Transport {
	d := newDialer(cfg)
	if certificate != nil {
		d.tls.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate, nil }
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:            d.dial,
		DialTLSContext:         d.dialTLS,
		Protocols:              protocols,
		DisableCompression:     true, // a reply is only read for its first bytes, never unpacked
		MaxResponseHeaderBytes: maxReplyHeader,
		MaxIdleConns:           cfg.MaxIdle,
		MaxIdleConnsPerHost:    cfg.MaxIdlePerHost,
		IdleConnTimeout:        cfg.IdleTimeout,
	}
}

// Deliver makes one attempt and returns its outcome. It returns within a.Timeout (task.DefaultTimeout if a.Timeout is
// not positive), and at once when ctx ends. If ctx was cancelled, the outcome's error begins with "aborted", and the
// receiver may or may not have got the task.
//
// The task must not change, even after Deliver returns: a connection may still be sending its payload.
func (w *Webhook) Deliver(ctx context.Context, a task.Attempt) task.Outcome {
	begun := w.cfg.Now()
	v := w.attempt(ctx, a, begun)
	took := w.cfg.Now().Sub(begun)
	w.metrics.request(took)
	w.ended(ctx, a, v, took)
	return v.told(a)
}

// ended counts an attempt, and logs an attempt that was not delivered.
func (w *Webhook) ended(ctx context.Context, a task.Attempt, v verdict, took time.Duration) {
	w.metrics.attempt(v.class)
	if v.Delivered || !w.cfg.Logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	destination, err := task.Destination(a.Task.GetSpec().GetTarget().GetUrl())
	if err != nil {
		destination = "unknown" // the outcome's error names the fault
	}
	w.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "attempt not delivered",
		slog.String("task", a.Task.GetId()), slog.String("webhook_id", a.Task.GetWebhookId()),
		slog.Uint64("attempt", uint64(a.Task.GetAttempts())), slog.String("destination", destination),
		slog.String("result", v.class.String()), slog.Duration("took", took), slog.String("err", v.Error))
}

// Close closes idle connections and lets no further attempt begin. It neither ends nor awaits running attempts, which
// end with their own contexts.
func (w *Webhook) Close() {
	w.closed.Store(true)
	w.transports.close()
}
