package headroom

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfryhq/belfry/internal/assert"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

func TestReserve(t *testing.T) {
	for _, tt := range []struct {
		text  string
		of10G uint64 // the reserve of a disk of 10 GiB
		says  string
	}{
		{"", 512 * mib, "the less of 1GiB and 5%"},
		{"0", 0, "0B"},
		{"0%", 0, "0B"},
		{"5%", 512 * mib, "5%"},
		{"12.5%", 1280 * mib, "12.5%"},
		{"256MiB", 256 * mib, "256MiB"},
		{"1.5GiB", 1536 * mib, "1.5GiB"},
		{"64KiB", 64 << 10, "64KiB"},
		{"2GB", 2e9, "1.9GiB"},
		{"4096", 4096, "4KiB"},
		{"100B", 100, "100B"},
	} {
		r, err := ParseReserve(tt.text)
		if err != nil || r.Of(10*gib) != tt.of10G || r.String() != tt.says {
			t.Errorf("%q: %d, %q, %v; want %d, %q", tt.text, r.Of(10*gib), r, err, tt.of10G, tt.says)
		}
	}
	for _, text := range []string{"much", "-1", "100%", "-5%", "5 %", "NaN", "NaN%", "1e30", "MiB", "%", "1XiB", "Inf"} {
		if r, err := ParseReserve(text); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v, %v", text, r, err)
		}
	}
	assert.Equal(t, (Reserve{}).Of(100*gib), gib, "of a large disk")
	if got := NoReserve().Of(gib); got != 0 || NoReserve().Starts(Space{Free: 4*mib - 1, Total: gib}) ||
		!NoReserve().Starts(Space{Free: 4 * mib, Total: gib}) {
		t.Errorf("none: %d", got)
	}
}

func TestSpace(t *testing.T) {
	dir := t.TempDir()
	here, err := System{dir}.Space()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil || here.Total == 0 || here.Free > here.Total {
		t.Fatalf("%+v, %v", here, err)
	}
	later, err := System{filepath.Join(dir, "not", "made", "yet")}.Space()
	if err != nil || later.Total != here.Total {
		t.Errorf("of a folder that is not there yet: %+v, %v", later, err)
	}
}

// fakeDisk is a disk whose free room the test sets.
type fakeDisk struct {
	Host
	mu   sync.Mutex
	free uint64
	err  error
}

func (d *fakeDisk) set(free uint64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free, d.err = free, err
}

func (d *fakeDisk) Space() (Space, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Space{Free: d.free, Total: 1000}, d.err
}

func reserve(t *testing.T, text string) Reserve {
	t.Helper()
	r, err := ParseReserve(text)
	assert.NoError(t, err)
	return r
}

// The disk is low from less than the reserve on, until a quarter more than the reserve is free.
func TestDisk(t *testing.T) {
	d := &fakeDisk{free: 500}
	var out strings.Builder
	registry := prometheus.NewRegistry()
	w := NewDisk(DiskConfig{
		Host: d, Reserve: reserve(t, "100"),
		Logger: slog.New(slog.NewTextHandler(&out, nil)), Registerer: registry,
	})
	for i, step := range []struct {
		free         uint64
		changed, low bool
		fits         int64 // the largest file; <0: none
	}{
		{100, false, false, 50}, {99, true, true, 49}, {110, false, true, 60}, {40, false, true, -1},
		{124, false, true, 74}, {125, true, false, 75}, {101, false, false, 51}, {0, true, true, -1},
	} {
		d.set(step.free, nil)
		if changed := w.look(); changed != step.changed || w.Low() != step.low {
			t.Errorf("step %d, %d free: changed %v, low %v", i, step.free, changed, w.Low())
		}
		if step.fits < 0 && w.Fits(0) || step.fits >= 0 && (!w.Fits(step.fits) || w.Fits(step.fits+1)) {
			t.Errorf("step %d: fits %d: %v, %v", i, step.fits, w.Fits(step.fits), w.Fits(step.fits+1))
		}
	}
	d.set(1000, errors.New("no answer"))
	for range 3 {
		w.look()
	}
	if !w.Low() || strings.Count(out.String(), "no answer") != 1 {
		t.Errorf("a disk that does not answer: low is %v; %s", w.Low(), out.String())
	}
	want := "# HELP belfry_disk_low 1 while there is less.\n# TYPE belfry_disk_low gauge\nbelfry_disk_low 1\n"
	assert.Equal(t, testutil.GatherAndCompare(registry, strings.NewReader(want), "belfry_disk_low"), nil)
}

// Run calls Changed once when the disk becomes low, and once when it is so no longer.
func TestDiskRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d, changes := &fakeDisk{free: 500}, make(chan bool, 10)
		w := NewDisk(DiskConfig{Host: d, Reserve: reserve(t, "100"), Logger: slog.New(slog.DiscardHandler)})
		go w.Run(ctx, func() { changes <- w.Low() })
		for _, free := range []uint64{50, 500} {
			d.set(free, nil)
			assert.Equal(t, <-changes, free < 100, "%d free: low", free)
			time.Sleep(10 * diskEvery)
		}
		cancel()
		synctest.Wait()
		if len(changes) > 0 {
			t.Errorf("told %d times more", len(changes))
		}
	})
}

// A system that does not report its free room has a disk that is not low.
func TestUnknownSpace(t *testing.T) {
	w := NewDisk(DiskConfig{Host: &fakeDisk{err: errors.ErrUnsupported}, Logger: slog.New(slog.DiscardHandler)})
	if w.Low() || !w.Fits(1<<40) {
		t.Error("low")
	}
}
