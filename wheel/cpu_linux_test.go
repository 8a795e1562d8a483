package wheel

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the processor time of this thread. Unlike the real time, it excludes the time of other processes.
// The goroutine must be locked to its thread.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}
