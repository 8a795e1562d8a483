package headroom

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// diskEvery is the interval between looks at the disk.
const diskEvery = 500 * time.Millisecond

// DiskConfig holds the disk to watch, and the settings.
type DiskConfig struct {
	Host       Host
	Reserve    Reserve
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// Disk holds the last known room on a disk. Its methods are safe for concurrent use.
type Disk struct {
	cfg DiskConfig

	mu    sync.Mutex
	space Space // last known; zero: not known
	low   bool
	mute  bool // the last look failed
}

// NewDisk returns a Disk that has looked once; Run continues.
func NewDisk(cfg DiskConfig) *Disk {
	d := &Disk{cfg: cfg}
	d.look()
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(d.collectors()...)
	}
	return d
}

// Run looks until the context ends. It calls changed when the disk becomes low, or is so no longer. A look may hang
// with the disk; then the last known room stands.
func (d *Disk) Run(ctx context.Context, changed func()) { watch(ctx, diskEvery, d.look, changed) }

// Room returns the last known room and the reserve in bytes. The zero Space means that the room is not known.
func (d *Disk) Room() (space Space, reserve uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.space, d.cfg.Reserve.Of(d.space.Total)
}

// Low reports whether less than the reserve is free, or was and not a quarter more is now.
func (d *Disk) Low() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.low
}

// Fits reports whether a file of this size would leave half of the reserve free.
func (d *Disk) Fits(bytes int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.space.Total == 0 {
		return true // not known
	}
	return d.space.Free >= uint64(max(bytes, 0))+d.cfg.Reserve.Of(d.space.Total)/2
}

// look looks once, and reports whether the disk became low or is so no longer.
func (d *Disk) look() (changed bool) {
	space, err := d.cfg.Host.Space() // may hang, so d.mu is not held
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		if !d.mute {
			d.cfg.Logger.Warn("how much room is left on the disk is not known", "err", err)
		}
		d.mute = true
		return false
	}
	d.space, d.mute = space, false
	low := space.Free < d.cfg.Reserve.Of(space.Total)
	if d.low {
		low = space.Free < d.cfg.Reserve.ends(space.Total)
	}
	changed = low != d.low
	d.low = low
	if changed && low {
		d.cfg.Logger.Error("the disk is nearly full: this node gives its leaderships away, and schedules nothing where it "+
			"must lead", "free", FormatBytes(space.Free), "reserve", FormatBytes(d.cfg.Reserve.Of(space.Total)))
	} else if changed {
		d.cfg.Logger.Info("there is room on the disk again", "free", FormatBytes(space.Free))
	}
	return changed
}

// Reserve is the part of a disk that must stay free. The zero value is the default one.
type Reserve struct {
	amount Amount
	given  bool
}

// The default reserve: reserveBytes, or reservePercent of the disk if that is less. leastToStart is in bytes.
const (
	reserveBytes   = 1 << 30
	reservePercent = 5
	leastToStart   = 4 << 20
)

// NoReserve returns a Reserve that keeps nothing free: a disk is never low.
func NoReserve() Reserve { return Reserve{given: true} }

// ParseReserve reads a reserve: "5%", "256MiB", "1.5GB", "0" for none, "" for the default.
func ParseReserve(text string) (Reserve, error) {
	if text == "" {
		return Reserve{}, nil
	}
	amount, err := ParseAmount(text)
	if err != nil {
		return Reserve{}, err
	}
	return Reserve{amount: amount, given: true}, nil
}

// Of returns the reserve of a disk with total bytes, in bytes.
func (r Reserve) Of(total uint64) uint64 {
	if !r.given {
		return min(reserveBytes, uint64(float64(total)*reservePercent/100))
	}
	return r.amount.Of(total)
}

// Starts reports whether a node may start with this room. The node must write before it can make room. A node that
// started without any room would end, and be started, again and again.
func (r Reserve) Starts(s Space) bool { return s.Free >= r.ToStart(s.Total) }

// ToStart returns how many bytes must be free for a node to start: half of the reserve, and at least enough for a
// segment of a log.
func (r Reserve) ToStart(total uint64) uint64 { return max(r.Of(total)/2, leastToStart) }

// ends returns how many bytes must be free for a low disk to be low no longer.
func (r Reserve) ends(total uint64) uint64 { return r.Of(total) / 4 * 5 }

func (r Reserve) String() string {
	if !r.given {
		return fmt.Sprintf("the less of %s and %d%%", FormatBytes(reserveBytes), reservePercent)
	}
	return r.amount.String()
}

// IsDiskFull reports whether an error means that a disk, or its user's quota, is used up.
func IsDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func (d *Disk) collectors() []prometheus.Collector {
	gauge := gauges("disk", &d.mu)
	return []prometheus.Collector{
		gauge("free_bytes", "Room on the disk of the data folder, when last told.",
			func() float64 { return float64(d.space.Free) }),
		gauge("reserve_bytes", "With less room than this the node gives its leaderships away.",
			func() float64 { return float64(d.cfg.Reserve.Of(d.space.Total)) }),
		gauge("low", "1 while there is less.", func() float64 { return flag(d.low) }),
	}
}
