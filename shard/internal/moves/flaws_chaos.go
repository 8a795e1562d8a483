//go:build chaos

package moves

import (
	"context"

	"github.com/belfryhq/belfry/fsm/flaw"
)

// flawReadsUnsealed reports whether the source takes the last changes for read although the slots are not sealed.
func flawReadsUnsealed() bool { return flaw.SealedLate.On() || flaw.OpenBeforeSeal.On() }

// flawSealsLate seals the slots, with the flaw on, after the last changes were read.
func flawSealsLate(ctx context.Context, t *Target, p Pull) error {
	if !flaw.SealedLate.On() {
		return nil
	}
	return t.seal(ctx, p)
}
