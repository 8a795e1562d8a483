package wheel

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the processor time of this thread: unlike the clock on the wall, it does not count what other processes
// took. The goroutine has to be locked to its thread.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}
