//go:build !chaos

package fsm

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
)

// This build has no seeded flaws; see package flaw.

func flawForgetsCancel(uint64) bool { return false }

func flawDropsSettle(uint64) bool { return false }

func flawForgetsFollowUp(uint64) bool { return false }

func flawKeepsScheduled(_, _ *store.Store) {}

func flawAltersInstants(*fsmpb.Series) {}
