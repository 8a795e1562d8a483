//go:build chaos

package flaw

// Flaw is a mistake that can be seeded.
type Flaw string

// The flaws.
const (
	SkippedFsync     Flaw = "skipped-fsync"      // the log store acknowledges what is not on the disk
	ForgottenCancel  Flaw = "forgotten-cancel"   // now and then a cancel is answered and not done
	DirtyRestore     Flaw = "dirty-restore"      // a snapshot is restored beside what was there
	FireBeforeCommit Flaw = "fire-before-commit" // an attempt starts when its grant is proposed
	DroppedSettle    Flaw = "dropped-settle"     // now and then a settle is answered and not done
	StaleRead        Flaw = "stale-read"         // a read is answered without proof of leadership
	TwoIDs           Flaw = "two-ids"            // an attempt made again has a webhook-id of its own
	UncheckedCopy    Flaw = "unchecked-copy"     // a node takes part without asking the others whether its folder is old
	BlindClock       Flaw = "blind-clock"        // no clock is compared with others, and no jump is noticed
)

// All returns all flaws.
func All() []Flaw {
	return []Flaw{
		SkippedFsync, ForgottenCancel, DirtyRestore, FireBeforeCommit, DroppedSettle, StaleRead, TwoIDs, BlindClock,
		UncheckedCopy,
	}
}

// Strikes reports whether this process has the flaw and makes the mistake in case number: in one of 32, scattered
// evenly (Fibonacci hashing, Knuth, volume 3, section 6.4).
func (f Flaw) Strikes(number uint64) bool { return f.On() && number*0x9e3779b97f4a7c15>>59 == 0 }
