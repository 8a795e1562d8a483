//go:build !chaos

package router

import "github.com/belfryhq/belfry/fsm/fsmpb"

// This build has no seeded flaws; see package flaw.

func flawReadsStale() bool { return false }

func flawListsDefault(*fsmpb.ListQuery) {}
