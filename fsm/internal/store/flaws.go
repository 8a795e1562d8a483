//go:build !chaos

package store

import "github.com/belfryhq/belfry/fsm/fsmpb"

// This build has no seeded flaws; see package flaw.

func flawChangesWebhookID(*Store, *fsmpb.Task) {}
