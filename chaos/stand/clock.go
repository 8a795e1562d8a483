package stand

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/belfryhq/belfry/deploy/local"
)

// Clock is the error of a node's wall clock. The node's monotonic clock stays right.
type Clock struct{ *shared } // nanoseconds

// Set puts the node's clock ahead of this machine's by offset. A negative offset puts it behind.
func (c *Clock) Set(offset time.Duration) { c.number.Store(int64(offset)) }

// openClocks gives every node a clock.
func openClocks(cfg Config, places []local.Place) (map[string]*Clock, error) {
	clocks := make(map[string]*Clock, len(places))
	for i, name := range names(len(places)) {
		number, err := share(&places[i], "BELFRY_CLOCK_OFFSET_FILE", filepath.Join(cfg.Dir, "clocks", name))
		if err != nil {
			return clocks, fmt.Errorf("the clock of %s: %w", name, err)
		}
		clocks[name] = &Clock{number}
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
