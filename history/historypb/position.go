package historypb

import (
	"cmp"
	"fmt"
)

// Position is the place of an event in its shard: the index of its log entry, and its number within the entry. The zero
// position is before all events.
type Position struct {
	Index  uint64
	Number uint32
}

// Compare returns a negative number if p is before q, 0 if they are equal, and a positive number if p is after q.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Index, q.Index), cmp.Compare(p.Number, q.Number))
}

// After reports whether p is after q.
func (p Position) After(q Position) bool { return p.Compare(q) > 0 }

// String returns the position as "index.number".
func (p Position) String() string { return fmt.Sprintf("%d.%d", p.Index, p.Number) }

// Position returns the position of the event.
func (x *Event) Position() Position { return Position{x.GetIndex(), x.GetNumber()} }

// Position returns the position without its instant.
func (x *TimedPosition) Position() Position { return Position{x.GetIndex(), x.GetNumber()} }

// TimedPosition returns the position of the event with the instant of its entry.
func (x *Event) TimedPosition() *TimedPosition {
	return &TimedPosition{Index: x.GetIndex(), Number: x.GetNumber(), AtMs: x.GetAtMs()}
}
