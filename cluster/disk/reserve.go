package disk

import (
	"fmt"

	"github.com/belfryhq/belfry/cluster/size"
)

// Space is the room on a file system, in bytes.
type Space struct {
	Free  uint64 // for a process without privileges
	Total uint64
}

// Reserve is the part of a disk that must stay free. The zero value is the default one.
type Reserve struct {
	amount size.Amount
	given  bool
}

// The default reserve: defaultBytes, or defaultPercent of the disk if that is less. leastToStart is in bytes.
const (
	defaultBytes   = 1 << 30
	defaultPercent = 5
	leastToStart   = 4 << 20
)

// None returns a Reserve that keeps nothing free: a disk is never low.
func None() Reserve { return Reserve{given: true} }

// Parse reads a reserve: "5%", "256MiB", "1.5GB", "0" for none, "" for the default.
func Parse(text string) (Reserve, error) {
	if text == "" {
		return Reserve{}, nil
	}
	amount, err := size.Parse(text)
	if err != nil {
		return Reserve{}, err
	}
	return Reserve{amount: amount, given: true}, nil
}

// Of returns the reserve of a disk with total bytes, in bytes.
func (r Reserve) Of(total uint64) uint64 {
	if !r.given {
		return min(defaultBytes, uint64(float64(total)*defaultPercent/100))
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
		return fmt.Sprintf("the less of %s and %d%%", size.Format(defaultBytes), defaultPercent)
	}
	return r.amount.String()
}
