// Package child runs a program as a child process whose life is tied to this one's: a process group of its own, its
// output at the end of a log file, and, on Linux, SIGKILL when the parent dies, however it dies. So nothing that is
// started for a test or a measurement is left behind.
//
// It leaves to others: when the child is ready, whether it is started again, and what its death means.
package child
