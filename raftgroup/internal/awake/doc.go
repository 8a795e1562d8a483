// Package awake measures the time in which the process ran. A process that was stopped (SIGSTOP, a debugger, a virtual
// machine that is suspended or moved) finds all its timers overdue when it goes on, although its disk and its peers had
// no time to answer. Every deadline that ends the process is therefore a Timer of this package.
//
// A Timer divides its limit into steps. A step that takes too long counts at most twice, because the rest of its time
// is probably a stop:
//
//	a disk that hangs                             is found as soon as with time.AfterFunc
//	a stop of any length                          delays the end by no more than it lasted
//	a machine too busy to run a timer in 2 steps  gets more patience
//
// # Why not otherwise
//
//   - Not CLOCK_MONOTONIC alone: it goes on while a process is stopped, and on many hosts while a virtual machine is.
//   - Not the process's CPU time: a process that waits for its disk uses none.
//   - Not one ticking goroutine for the whole process: nearly all Timers are stopped before their first step, and then
//     cost as much as a time.Timer.
package awake
