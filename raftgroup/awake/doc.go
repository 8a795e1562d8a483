// Package awake measures time in which the process ran. A process that was stopped (SIGSTOP, a debugger, a virtual
// machine that is suspended or moved) finds all its timers overdue when it goes on, although its disk and its peers had
// no time to answer. Every deadline that ends the process is therefore a Timer of this package.
//
// A Timer divides its limit into steps. A step that took longer than it should counts at most twice: the rest of that
// time is taken for a stop. So a disk that hangs is found as soon as with time.AfterFunc, a stop of any length delays
// the end by no more than it lasted, and a machine too busy to run a timer within two steps gets more patience.
//
// # Why not otherwise
//
// Not CLOCK_MONOTONIC alone: it goes on while a process is stopped, and on many hosts while a virtual machine is. Not
// the process's time of CPU: a process that waits for its disk uses none. Not a goroutine that ticks for the whole
// process: a Timer that is stopped before its first step, as nearly all are, then costs as much as a time.Timer.
package awake
