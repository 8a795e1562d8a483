package audit

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// health is the state of the writes to one place.
type health struct {
	path    string
	log     *slog.Logger
	metrics *metrics

	mu     sync.Mutex
	since  time.Time // of the write under way; zero: there is none
	fault  error     // of the last write; nil: it succeeded
	failed uint64    // records lost since the last write that succeeded
}

func newHealth(cfg Config, m *metrics) *health {
	return &health{path: cfg.Path, log: cfg.Logger, metrics: m}
}

// during calls a function that waits for the disk, without the lock, and keeps its outcome.
func (h *health) during(write func() error) error {
	h.begin()
	err := write()
	h.end(err)
	return err
}

func (h *health) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since = time.Now()
}

// end keeps the outcome of a write. It logs the first of consecutive failures, and the success after them.
func (h *health) end(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil && h.fault == nil:
		h.log.Error("the audit log cannot be written", "file", h.path, "err", err)
	case err == nil && h.fault != nil:
		h.log.Info("the audit log is written again", "file", h.path, "lost", h.failed)
		h.failed = 0
	}
	h.since, h.fault = time.Time{}, err
}

// synced keeps the outcome of a sync. Its success does not show that the file takes further records.
func (h *health) synced(err error) {
	if err != nil {
		h.end(err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since = time.Time{}
}

// lose counts a record that will never be written.
func (h *health) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed++
	h.metrics.lost.Inc()
}

// failing returns the error of the last write, or one about a write that lasts longer than Patience, or nil.
func (h *health) failing() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fault != nil || h.since.IsZero() {
		return h.fault
	}
	if took := time.Since(h.since); took > Patience {
		return fmt.Errorf("a write to %s has not ended for %s", h.path, took.Round(time.Second))
	}
	return nil
}
