//go:build !chaos

package fsm

import "github.com/belfryhq/belfry/fsm/fsmpb"

// This build has no seeded flaws; see package flaw.

func flawForgetsCancel(uint64) bool { return false }

func flawDropsSettle(uint64) bool { return false }

func flawChangesWebhookID(*fsmpb.Task, uint64) {}

func flawKeepsScheduled(*Machine, *state) {}
