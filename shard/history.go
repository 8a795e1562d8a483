package shard

import (
	"log/slog"

	"github.com/belfryhq/belfry/fsm/task"
)

// History keeps the events of a replica. The goroutine that applies entries calls Append and Gap.
type History interface {
	// Append keeps the events of the entry at an index, in their order. It ignores entries that it has. It must be quick,
	// and owns the events only during the call.
	Append(index uint64, events []task.Event)
	// Gap records that the events of the entries from one index to another, both included, do not come. It ignores
	// entries that it has.
	Gap(from, to uint64)
	// Sync makes the events of all entries up to an index durable. Entries up to it may leave the log afterwards.
	Sync(index uint64) error
}

// chronicle hands the events of applied entries to a History. With the history nil, it does nothing.
type chronicle struct {
	history History
	logger  *slog.Logger
	events  []task.Event // of the entry that is being applied
}

// applied ends an entry.
func (c *chronicle) applied(index uint64) {
	if len(c.events) == 0 {
		return
	}
	c.history.Append(index, c.events)
	clear(c.events)
	c.events = c.events[:0]
}

// restored records that a snapshot up to an index took the place of the entries.
func (c *chronicle) restored(index uint64) {
	if c.history != nil && index > 0 {
		c.history.Gap(1, index)
	}
}

// sync makes the events up to an index durable, because the log up to it may be cut. The events of a failed sync may be
// missing after a crash, and then leave a gap.
func (c *chronicle) sync(index uint64) {
	if c.history == nil {
		return
	}
	if err := c.history.Sync(index); err != nil {
		c.logger.Warn("the history is not on the disk, and a crash would leave a gap in it", "err", err)
	}
}
