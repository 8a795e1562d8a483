package disk

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/size"
)

const every = 500 * time.Millisecond

// Config holds the disk to watch, and the settings.
type Config struct {
	Space      func() (Space, error)
	Reserve    Reserve
	Changed    func()        // called when the disk becomes low, or is so no longer
	Every      time.Duration // 0: half a second
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// Watch holds the last known room on a disk. Its methods are safe for concurrent use.
type Watch struct {
	cfg Config

	mu    sync.Mutex
	space Space // last known; zero: not known
	low   bool
	mute  bool // the last look failed
}

// New returns a Watch that has looked once; Run continues.
func New(cfg Config) *Watch {
	if cfg.Every == 0 {
		cfg.Every = every
	}
	w := &Watch{cfg: cfg}
	w.look()
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(w.collectors()...)
	}
	return w
}

// Run looks until the context ends. A look may hang with the disk; then the last known room stands.
func (w *Watch) Run(ctx context.Context) {
	ticker := time.NewTicker(w.cfg.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if w.look() {
				w.cfg.Changed()
			}
		case <-ctx.Done():
			return
		}
	}
}

// Room returns the last known room and the reserve in bytes. The zero Space means that the room is not known.
func (w *Watch) Room() (space Space, reserve uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.space, w.cfg.Reserve.Of(w.space.Total)
}

// Low reports whether less than the reserve is free, or was and not a quarter more is now.
func (w *Watch) Low() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.low
}

// Fits reports whether a file of this size would leave half of the reserve free.
func (w *Watch) Fits(bytes int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.space.Total == 0 {
		return true // not known
	}
	return w.space.Free >= uint64(max(bytes, 0))+w.cfg.Reserve.Of(w.space.Total)/2
}

// look looks once, and reports whether the disk became low or is so no longer.
func (w *Watch) look() (changed bool) {
	space, err := w.cfg.Space() // may hang, so w.mu is not held
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		if !w.mute {
			w.cfg.Logger.Warn("how much room is left on the disk is not known", "err", err)
		}
		w.mute = true
		return false
	}
	w.space, w.mute = space, false
	low := space.Free < w.cfg.Reserve.Of(space.Total)
	if w.low {
		low = space.Free < w.cfg.Reserve.ends(space.Total)
	}
	changed = low != w.low
	w.low = low
	if changed && low {
		w.cfg.Logger.Error("the disk is nearly full: this node gives its leaderships away, and schedules nothing where it "+
			"must lead", "free", size.Format(space.Free), "reserve", size.Format(w.cfg.Reserve.Of(space.Total)))
	} else if changed {
		w.cfg.Logger.Info("there is room on the disk again", "free", size.Format(space.Free))
	}
	return changed
}
