//go:build !next

package store

// Version is the newest version of commands and snapshots that this build writes and reads. A build that adds a kind
// of command or of control entry has the next number. Builds of one release share a number.
const Version = 1
