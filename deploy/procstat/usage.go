package procstat

import (
	"time"

	"github.com/prometheus/procfs"
)

// Usage is the resource usage of one process.
type Usage struct {
	Memory      int64 // resident bytes
	Descriptors int
	Threads     int
	Processor   time.Duration // since the start of the process
}

// Of returns the usage of a process.
func Of(pid int) (Usage, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return Usage{}, err
	}
	stat, err := p.Stat()
	if err != nil {
		return Usage{}, err
	}
	status, err := p.NewStatus() // its memory is exact, unlike the one in stat
	if err != nil {
		return Usage{}, err
	}
	descriptors, err := p.FileDescriptorsLen()
	return Usage{
		Memory: int64(status.VmRSS), Descriptors: descriptors, Threads: stat.NumThreads,
		Processor: ticks(int(stat.UTime + stat.STime)),
	}, err
}

// ticks converts processor time of /proc/PID/stat. Its unit, USER_HZ, is 1/100 s on every Linux that Go supports.
func ticks(n int) time.Duration {
	const perSecond = 100
	return time.Duration(n) * time.Second / perSecond
}
