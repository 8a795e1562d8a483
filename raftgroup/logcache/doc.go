// Package logcache keeps the newest entries of a Raft log in memory, within so many bytes.
//
// A leader sends its followers what it has just written, and a follower applies what it wrote a round trip ago: both
// are the last entry or two, and find them here. Whoever is further behind is served from the log's file, which the
// system most likely still holds in memory, too.
//
// Why not hashicorp/raft's own: it counts entries. One of ours may be a few bytes or hold a thousand tasks, so that 32
// of them, for a dozen groups, came to some 40 MB that nobody would read again.
package logcache
