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

// Config says what is watched.
type Config struct {
	Space      func() (Space, error)
	Reserve    Reserve
	Changed    func()        // called when the disk became low, or is so no longer
	Every      time.Duration // 0: half a second
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: none
}

// Watch knows how much room there was a moment ago. Its methods are safe for concurrent use.
type Watch struct {
	cfg Config

	mu    sync.Mutex
	space Space // the last that was told
	low   bool
	mute  bool // the disk did not tell the last time
}

// New makes a watch that has looked once; Run goes on looking.
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

// Run looks until the context ends. A look may hang with the disk; then what was last known stands.
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

// Low tells whether less than the reserve is free, or was and not much more is now.
func (w *Watch) Low() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.low
}

// Fits tells whether a file of this size would leave half of the reserve free.
func (w *Watch) Fits(bytes int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.space.Total == 0 {
		return true // not known
	}
	return w.space.Free >= uint64(max(bytes, 0))+w.cfg.Reserve.Of(w.space.Total)/2
}

// look asks once, and tells whether the disk became low or is so no longer.
func (w *Watch) look() (changed bool) {
	space, err := w.cfg.Space() // may hang: nothing is held
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
