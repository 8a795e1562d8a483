package workload

import (
	"fmt"
	"syscall"
	"time"

	"github.com/belfryhq/belfry/bench/figure"
	"github.com/belfryhq/belfry/deploy/procstat"
)

// reading is the processor time of the load and the service at an instant.
type reading struct {
	at      time.Time
	load    time.Duration
	service map[int]procstat.Tree // by process id
}

// read reads the current usage. It reports a failure to say, and the figures then lack the usage.
func (r *run) read() reading {
	now := reading{at: time.Now(), service: map[int]procstat.Tree{}}
	usage, err := r.processes()
	if err != nil {
		r.say("the service's memory and CPU time cannot be read: %v", err)
	} else {
		now.service = usage
	}
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		r.say("the load's CPU time cannot be read: %v", err)
	}
	now.load = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	return now
}

// processes returns the usage of each process of the service so far.
func (r *run) processes() (map[int]procstat.Tree, error) {
	pids := r.service.PIDs()
	all, err := procstat.OfTrees(pids...)
	if err != nil {
		return nil, fmt.Errorf("processes %v: %w", pids, err)
	}
	byPID := map[int]procstat.Tree{}
	for i, pid := range pids {
		byPID[pid] = all[i]
	}
	return byPID, nil
}

// since returns the usage between two readings. It counts the processes that lived throughout.
func (now reading) since(before reading) figure.Usage {
	used := figure.Usage{Elapsed: now.at.Sub(before.at), LoadCPU: now.load - before.load}
	for pid, usage := range now.service {
		if began, ok := before.service[pid]; ok {
			used.ServiceCPU += usage.Processor - began.Processor
		}
	}
	return used
}

// meter starts the measured part of the run. The returned stop ends it and records its usage.
func (r *run) meter() (stop func()) {
	before := r.read()
	return func() { r.usage = r.read().since(before) }
}
