package workload

import (
	"fmt"
	"syscall"
	"time"

	"github.com/belfryhq/belfry/bench/figure"
	"github.com/belfryhq/belfry/deploy/procstat"
)

// reading is what the load and the service had used at an instant.
type reading struct {
	at      time.Time
	load    time.Duration
	service map[int]procstat.Tree // by process
}

// read reads what was used so far. Where that cannot be read, it is told, and the figures do without it.
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

// processes is what each of the service's processes has used so far.
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

// since is what was used between two readings, by the service's processes that lived all the while.
func (now reading) since(before reading) figure.Usage {
	used := figure.Usage{Elapsed: now.at.Sub(before.at), LoadCPU: now.load - before.load}
	for pid, usage := range now.service {
		if began, ok := before.service[pid]; ok {
			used.ServiceCPU += usage.Processor - began.Processor
		}
	}
	return used
}

// meter measures what is used until the function that it returns is called, which is the measured part of the run.
func (r *run) meter() (stop func()) {
	before := r.read()
	return func() { r.usage = r.read().since(before) }
}
