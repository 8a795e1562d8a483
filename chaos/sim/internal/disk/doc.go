// Package disk simulates the disk of one replica: its log, its votes and its snapshots.
//
//	write                                     found by the next process
//	acknowledged                              all of it
//	under way when the process died           nothing, all of it, or any first part
//	failed, or longer than the timeout        ends the process; then as a write under way
//
// Writes take time, and can be slow, fail or hang. A write that fails or takes too long ends the process, as in
// production: the disk calls the function given to Open.
//
// A dead process goes on in a void. It keeps content of its own that no other process sees, so that its remaining
// goroutines meet no error that they could not meet alive.
//
// The package leaves out fsync, pages and files. The tests of the real log store cover them, also on a file system
// that loses pages (chaos/lossyfs).
package disk
