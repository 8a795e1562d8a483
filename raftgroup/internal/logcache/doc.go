// Package logcache keeps the newest entries of a Raft log in memory, up to a number of bytes.
//
//	a leader                sends its followers the entry that it has just written
//	a follower              applies the entry that it wrote a round trip ago
//	a follower far behind   is served from the log's file, which the system most likely still holds in memory
//
// The first two read one of the last two entries, which the cache holds.
//
// Why not hashicorp/raft's own cache: it counts entries. One of ours may be a few bytes or hold a thousand tasks, so 32
// of them, for a dozen groups, came to some 40 MB that were never read again.
package logcache
