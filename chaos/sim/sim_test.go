package sim

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// The variables that choose short runs and runs with moves, if they are set.
const (
	short = "BELFRY_SIM_SHORT"
	moves = "BELFRY_SIM_MOVES"
)

// patience is how long a run may take on a busy machine, in real time.
const patience = 5 * time.Minute

// play plays one run in a bubble of its own. A run that does not end in time panics with the stacks of all goroutines.
func play(t *testing.T, cfg Config) *Result {
	t.Helper()
	watchdog := time.AfterFunc(patience, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("no end in sight of %v", cfg))
	})
	defer watchdog.Stop()
	var r *Result
	synctest.Test(t, func(*testing.T) { r = Play(cfg) })
	return r
}

// TestSeeds plays a few short runs. With BELFRY_SIM_SEED it plays the run of that seed: whole, or short with
// BELFRY_SIM_SHORT.
func TestSeeds(t *testing.T) {
	if seed, ok := seedAsked(t); ok {
		cfg := drawAsked(seed)
		if os.Getenv(short) != "" {
			cfg = cfg.Short()
		}
		cfg.Logger = tracer(t)
		report(t, play(t, cfg))
		return
	}
	for _, seed := range []uint64{0, 1, 2, 3, 8, 10} { // slots move in the last two
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			report(t, play(t, Draw(seed).Short()))
		})
	}
}

// TestMovingSeeds plays a few short runs with shards that move.
func TestMovingSeeds(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			report(t, play(t, Draw(seed).Moving().Short()))
		})
	}
}

// TestLong plays one seed after the other, from BELFRY_SIM_SEED on, for BELFRY_SIM_FOR (5m). As many runs as GOMAXPROCS
// play at the same time.
func TestLong(t *testing.T) {
	gated.Need(t, gated.Long)
	first, _ := seedAsked(t)
	long := 5 * time.Minute
	if text := os.Getenv("BELFRY_SIM_FOR"); text != "" {
		var err error
		long, err = time.ParseDuration(text)
		assert.NoError(t, err)
	}
	began := time.Now()
	var next atomic.Uint64
	next.Store(first)
	sum := &sum{}
	t.Run("all", func(t *testing.T) {
		for w := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(w), func(t *testing.T) {
				t.Parallel()
				for time.Since(began) < long {
					r := play(t, drawAsked(next.Add(1)-1))
					sum.add(r)
					if !r.OK() {
						report(t, r)
					}
				}
			})
		}
	})
	t.Log(sum.text(time.Since(began)))
}

// sum adds up the figures of runs.
type sum struct {
	mu     sync.Mutex
	runs   int
	failed []uint64
	all    Figures
}

func (s *sum) add(r *Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs++
	if !r.OK() {
		s.failed = append(s.failed, r.Config.Seed)
	}
	s.all.Add(r.Figures)
}

func (s *sum) text(took time.Duration) string {
	weeks := s.all.Simulated.Hours() / 24 / 7
	return fmt.Sprintf("%d runs, %d failed %v\n%v\n%.1f runs and %.1f simulated weeks a minute on %d threads", s.runs,
		len(s.failed), s.failed, s.all, float64(s.runs)/took.Minutes(), weeks/took.Minutes(), runtime.GOMAXPROCS(0))
}

func report(t *testing.T, r *Result) {
	t.Helper()
	if r.OK() {
		t.Logf("%v\n%v", r.Config, r.Figures)
		return
	}
	again := fmt.Sprintf("BELFRY_SIM_SEED=%d go test ./chaos/sim -run TestSeeds -count=1", r.Config.Seed)
	if r.Config.short {
		again = short + "=1 " + again
	}
	if r.Config.Moves {
		again = moves + "=1 " + again
	}
	t.Errorf("%v\n%v\nagain: %s", r, r.Figures, again)
}

// drawAsked draws the config of a seed, with moves if BELFRY_SIM_MOVES is set.
func drawAsked(seed uint64) Config {
	if os.Getenv(moves) != "" {
		return Draw(seed).Moving()
	}
	return Draw(seed)
}

func seedAsked(t *testing.T) (seed uint64, ok bool) {
	t.Helper()
	text := os.Getenv("BELFRY_SIM_SEED")
	if text == "" {
		return 0, false
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	assert.NoError(t, err)
	return seed, true
}

// tracer returns a logger to the file that BELFRY_SIM_TRACE names, or nil if it names none.
func tracer(t *testing.T) *slog.Logger {
	path := os.Getenv("BELFRY_SIM_TRACE")
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	assert.NoError(t, err)
	t.Cleanup(func() { t.Log(errors.Join(f.Close())) })
	return slog.New(trace{w: f})
}
