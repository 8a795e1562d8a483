package linear

import (
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/history"
)

// clocks holds how far nodes' clocks may have been from the history's clock: always by apart, and by the offsets that
// faults caused.
type clocks struct {
	moved check.Clocks
	apart time.Duration
}

// earliest returns the first instant at which a node's clock may have shown a time.
func (c clocks) earliest(shown history.Instant) history.Instant {
	return c.moved.Earliest(shown.Add(-c.apart))
}

// off returns how far a moved clock may have been behind or ahead at most between two instants.
func (c clocks) off(from, to history.Instant) (behind, ahead time.Duration) {
	return c.moved.Off(from, to)
}
