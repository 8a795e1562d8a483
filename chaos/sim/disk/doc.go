// Package disk is the disk of one replica in a simulation: its log, its votes and its snapshots.
//
// What a write has acknowledged is there for the next process; a write that was under way when its process died may
// have happened, or a first part of it, or not. Writes take time, can be slow, fail or hang, and one that fails or
// takes too long ends the process, as in production: that is what the function given to Open is for.
//
// A process that has died goes on in a void: it keeps a copy of the disk that nobody else will see, so that whatever of
// it still runs meets no error that it could not meet alive.
//
// Not fsync itself, nor pages and files: what the real log store makes of those is tested beneath it, and on a file
// system that loses pages (chaos/lossyfs).
package disk
