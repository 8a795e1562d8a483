//go:build !chaos

package control

import (
	"context"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// This build has no seeded flaws; see package flaw.

func flawPromotesEarly() bool { return false }

func flawDropsEarly(context.Context, *SlotMover, *clusterpb.SlotMove, *clusterpb.SlotsProgress) error {
	return nil
}

func flawSealsLast(context.Context, *SlotMover, *clusterpb.SlotMove) error { return nil }
