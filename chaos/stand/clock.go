package stand

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/belfryhq/belfry/deploy/local"
)

// Clock is how far a node's wall clock is off. The node is of a build with the tag chaos, and maps the same file: what
// is set is in force at once. Its monotonic clock goes on as it does.
type Clock struct {
	mapped []byte
	offset *atomic.Int64 // nanoseconds
}

const offsetBytes = 8

// newClock makes the file, with an offset of nothing.
func newClock(path string) (_ *Clock, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(path, make([]byte, offsetBytes), 0o644); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }() // the mapping stays
	mapped, err := syscall.Mmap(int(file.Fd()), 0, offsetBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %s: %w", path, err)
	}
	return &Clock{mapped: mapped, offset: (*atomic.Int64)(unsafe.Pointer(&mapped[0]))}, nil
}

// Set puts the node's clock that far ahead of this machine's; behind, if it is negative.
func (c *Clock) Set(offset time.Duration) { c.offset.Store(int64(offset)) }

// Offset is how far the clock is ahead.
func (c *Clock) Offset() time.Duration { return time.Duration(c.offset.Load()) }

func (c *Clock) close() error { return syscall.Munmap(c.mapped) }

// openClocks gives every node a clock.
func openClocks(cfg Config, places []local.Place) (map[string]*Clock, error) {
	clocks := make(map[string]*Clock, len(places))
	for i, name := range names(len(places)) {
		path := filepath.Join(cfg.Dir, "clocks", name)
		clock, err := newClock(path)
		if err != nil {
			return clocks, fmt.Errorf("the clock of %s: %w", name, err)
		}
		clocks[name] = clock
		places[i].Env = append(slices.Clip(places[i].Env), "BELFRY_CLOCK_OFFSET_FILE="+path)
	}
	return clocks, nil
}

func (s *Stand) closeClocks() error {
	var errs []error
	for _, c := range s.Clocks {
		errs = append(errs, c.close())
	}
	s.Clocks = nil
	return errors.Join(errs...)
}
