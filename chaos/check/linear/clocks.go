package linear

import (
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/history"
)

// clocks is how far those of nodes may have been from the history's: always by a little, and by what faults made of
// them.
type clocks struct {
	moved check.Clocks
	apart time.Duration
}

// earliest is the first instant at which a node's clock may have shown a time.
func (c clocks) earliest(shown history.Instant) history.Instant {
	return c.moved.Earliest(shown.Add(-c.apart))
}

// off is by how much a clock that was moved may have been behind or ahead between two instants.
func (c clocks) off(from, to history.Instant) (behind, ahead time.Duration) {
	return c.moved.Off(from, to)
}
