//go:build chaos

package flaw

// Flaw names a mistake that can be seeded.
type Flaw string

// The flaws, each with its effect.
const (
	SkippedFsync     Flaw = "skipped-fsync"      // the log store acknowledges entries that are not on the disk
	ForgottenCancel  Flaw = "forgotten-cancel"   // now and then a cancel is answered but not carried out
	DirtyRestore     Flaw = "dirty-restore"      // a snapshot is restored beside the previous tasks
	FireBeforeCommit Flaw = "fire-before-commit" // an attempt starts when its grant is proposed
	DroppedSettle    Flaw = "dropped-settle"     // now and then a settle is answered but not carried out
	LateFollowUp     Flaw = "late-follow-up"     // now and then a follow-up is left to a second entry, which is lost
	StaleRead        Flaw = "stale-read"         // a read is answered without proof of leadership
	TwoIDs           Flaw = "two-ids"            // a repeated attempt has a webhook-id of its own
	UncheckedCopy    Flaw = "unchecked-copy"     // a node takes part without a check whether its folder is old
	BlindClock       Flaw = "blind-clock"        // no clock is compared with others, and clock jumps go unnoticed
	EarlyVote        Flaw = "early-vote"         // a new replica votes before it has caught up
	EarlyRemoval     Flaw = "early-removal"      // a replica is removed before its successor votes
	KeptFiles        Flaw = "kept-files"         // the files of a removed replica are opened again
	UnboundChange    Flaw = "unbound-change"     // a change of members is made in another membership than the one seen
	SealedLate       Flaw = "sealed-late"        // slots are sealed after their last changes were read
	OpenBeforeSeal   Flaw = "open-before-seal"   // a target opens slots a second before the source is sealed
	DropBeforeOpen   Flaw = "drop-before-open"   // a source drops tasks once it is sealed, before the target is open
	KeptKey          Flaw = "kept-key"           // nodes that know an API key take it also after its revocation
	ForeignList      Flaw = "foreign-list"       // lists of any namespace show the tasks of the default one
	DoubledInstant   Flaw = "doubled-instant"    // now and then two occurrences begin for one instant
	SkippedInstant   Flaw = "skipped-instant"    // now and then no occurrence begins for an instant
	CrowdedGroup     Flaw = "crowded-group"      // leaders do not count the attempts of a group that are under way
	RefusedTransfer  Flaw = "refused-transfer"   // a stop gives no leadership away while another transfer is under way
)

// All returns all flaws.
func All() []Flaw {
	return []Flaw{
		SkippedFsync, ForgottenCancel, DirtyRestore, FireBeforeCommit, DroppedSettle, LateFollowUp,
		StaleRead, TwoIDs, BlindClock,
		UncheckedCopy, EarlyVote, EarlyRemoval, KeptFiles, UnboundChange,
		SealedLate, OpenBeforeSeal, DropBeforeOpen, KeptKey, ForeignList,
		DoubledInstant, SkippedInstant, CrowdedGroup, RefusedTransfer,
	}
}

// Strikes reports whether this process has the flaw and makes the mistake in the case of this number. It does in one
// of 32 cases, scattered evenly (Fibonacci hashing, Knuth, volume 3, section 6.4).
func (f Flaw) Strikes(number uint64) bool { return f.On() && number*0x9e3779b97f4a7c15>>59 == 0 }
