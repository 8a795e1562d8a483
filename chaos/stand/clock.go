package stand

import (
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
	return shareAll(places, "BELFRY_CLOCK_OFFSET_FILE", filepath.Join(cfg.Dir, "clocks"),
		func(number *shared) *Clock { return &Clock{number} })
}
