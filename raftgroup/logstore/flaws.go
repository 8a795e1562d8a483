//go:build !chaos

package logstore

import "github.com/hashicorp/raft-wal/types"

// This build has no seeded flaws; see package flaw.

func flawSkipsSync(string) bool { return false }

func flawUnsyncs(synced types.VFS) types.VFS { return synced }
