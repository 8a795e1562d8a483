// Package logcache keeps the newest entries of a Raft log in memory, up to a number of bytes.
//
// A leader sends its followers the entry that it has just written, and a follower applies the entry that it wrote a
// round trip ago. Both are among the last two entries and found here. A follower that is further behind is served from
// the log's file, which the system most likely still holds in memory, too.
//
// Why not hashicorp/raft's own: it counts entries. One of ours may be a few bytes or hold a thousand tasks, so 32 of
// them, for a dozen groups, came to some 40 MB that were never read again.
package logcache
