//go:build chaos

package control

import (
	"context"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/flaw"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// flawPromotesEarly reports whether replicas get a vote before they have caught up.
func flawPromotesEarly() bool { return flaw.EarlyVote.On() }

// flawDropsEarly has the source drop its tasks, with the flaw on, once the source is seen to be sealed. The target may
// lack the last changes then, and the move may be given up.
func flawDropsEarly(
	ctx context.Context, m *SlotMover, move *clusterpb.SlotMove, p *clusterpb.SlotsProgress,
) error {
	if !flaw.DropBeforeOpen.On() || !p.Sealed {
		return nil
	}
	return m.drop(ctx, move)
}

// flawSealsLast seals the source, with the flaw on, after the target has opened the slots.
func flawSealsLast(ctx context.Context, m *SlotMover, move *clusterpb.SlotMove) error {
	if !flaw.OpenBeforeSeal.On() {
		return nil
	}
	return m.commit(ctx, move, move.From, 0, &fsmpb.Command{Op: &fsmpb.Command_SealSlots{SealSlots: &fsmpb.SealSlots{
		Move: move.Number, Ranges: move.Ranges, To: move.To, Epoch: move.Number,
	}}})
}
