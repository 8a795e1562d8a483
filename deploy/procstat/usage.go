package procstat

import (
	"time"

	"github.com/prometheus/procfs"
)

// Usage is what one process takes from its machine.
type Usage struct {
	Memory      int64 // resident bytes
	Descriptors int
	Threads     int
	Processor   time.Duration // since the process began
}

// Of reads the usage of a process.
func Of(pid int) (Usage, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return Usage{}, err
	}
	stat, err := p.Stat()
	if err != nil {
		return Usage{}, err
	}
	status, err := p.NewStatus() // whose memory is exact, unlike the one in stat
	if err != nil {
		return Usage{}, err
	}
	descriptors, err := p.FileDescriptorsLen()
	return Usage{
		Memory: int64(status.VmRSS), Descriptors: descriptors, Threads: stat.NumThreads,
		Processor: ticks(int(stat.UTime + stat.STime)),
	}, err
}

// ticks converts the processor time of /proc/PID/stat: its unit, USER_HZ, is the same on every Linux that Go runs on.
func ticks(n int) time.Duration {
	const perSecond = 100
	return time.Duration(n) * time.Second / perSecond
}
