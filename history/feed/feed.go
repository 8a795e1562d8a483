package feed

import (
	"fmt"
	"time"

	"github.com/belfryhq/belfry/history/historypb"
)

// Filter selects events. Its zero value selects all.
type Filter struct {
	Queue  string
	Types  []historypb.Type
	Labels []*historypb.Label // all must be equal
	Prefix string             // of the task's id
	Since  time.Time          // of the entry, by its leader's clock
}

// Entry is an event, and the cursor after it.
type Entry struct {
	*historypb.Event
	Cursor Cursor
}

// Page is some events of a namespace.
type Page struct {
	Entries []Entry
	Next    Cursor   // where to go on
	Gapped  bool     // events between the cursor that was asked for and Next are missing
	Absent  []uint32 // shards that no node answered for; the next page reads them again
}

// Story is the events of one task, oldest first.
type Story struct {
	Events []*historypb.Event
	More   bool      // events were left out at the end
	Gapped bool      // events may be missing in between
	Since  time.Time // events before or at this instant may be gone; zero: none is
	Absent []string  // nodes that did not answer: they may have more
}

// GoneError refuses a cursor before events that the limits of the history have removed.
type GoneError struct {
	Since time.Time // the events after this instant are there
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("events up to %s are gone", e.Since.UTC().Format(time.RFC3339))
}
