package demo

import (
	"slices"
	"time"
)

// Verdict is the outcome of the run.
type Verdict struct {
	Scheduled int // acknowledged tasks
	Delivered int // acknowledged tasks that arrived at least once
	Lost      int // acknowledged tasks that never arrived
	Early     int // tasks with an arrival before the due time
	Repeats   int // arrivals beyond a task's first
	Altered   int // tasks with a repeat under another webhook-id

	Killed   string        // name of the killed node
	Shards   int           // number of shards that it led
	Failover time.Duration // from the kill until all of these shards took writes again

	All    Lateness
	Window Lateness // of the tasks that were due during the failover
	Calm   Lateness // of all other tasks
	bins   []bin
}

// OK reports whether the run kept its promises: no task was lost or early, and all repeats had the first webhook-id.
func (v *Verdict) OK() bool { return v.Lost == 0 && v.Early == 0 && v.Altered == 0 && v.Delivered > 0 }

// Lateness summarises the lateness of the first arrivals of some tasks.
type Lateness struct {
	Tasks         int
	P50, P99, Max time.Duration
}

// failover is the time whose lateness counts as the failover's.
type failover struct {
	victim string
	shards int
	killed time.Time
	over   time.Time
}

const (
	// A task due just before the kill may have been handed out but not delivered.
	windowHead = 50 * time.Millisecond
	// After a takeover, the new leader first delivers the tasks that came due meanwhile.
	windowTail = 250 * time.Millisecond
)

func (f failover) covers(due time.Time) bool {
	return !due.Before(f.killed.Add(-windowHead)) && !due.After(f.over.Add(windowTail))
}

// bin is one bar of the histogram: first arrivals with a lateness under below, and not under that of the previous bin.
type bin struct {
	below        time.Duration
	calm, window int
}

var binLimits = [...]int{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000} // ms

func newBins() []bin {
	bins := make([]bin, len(binLimits))
	for i, ms := range binLimits {
		bins[i].below = time.Duration(ms) * time.Millisecond
	}
	return append(bins, bin{below: 1<<63 - 1})
}

// judge computes the verdict.
func judge(tasks []record, f failover) *Verdict {
	v := &Verdict{Killed: f.victim, Shards: f.shards, Failover: f.over.Sub(f.killed), bins: newBins()}
	var window, calm []time.Duration
	for _, r := range tasks {
		v.count(r)
		if !r.acked || r.arrivals == 0 {
			continue
		}
		i := slices.IndexFunc(v.bins, func(b bin) bool { return r.lateness < b.below })
		if f.covers(r.due) {
			window = append(window, r.lateness)
			v.bins[i].window++
		} else {
			calm = append(calm, r.lateness)
			v.bins[i].calm++
		}
	}
	v.Window, v.Calm, v.All = sumUp(window), sumUp(calm), sumUp(slices.Concat(window, calm))
	return v
}

func (v *Verdict) count(r record) {
	v.Repeats += max(0, r.arrivals-1)
	if r.early {
		v.Early++
	}
	if r.altered {
		v.Altered++
	}
	switch {
	case !r.acked:
	case r.arrivals > 0:
		v.Scheduled++
		v.Delivered++
	default:
		v.Scheduled++
		v.Lost++
	}
}

func sumUp(lateness []time.Duration) Lateness {
	n := len(lateness)
	if n == 0 {
		return Lateness{}
	}
	slices.Sort(lateness)
	rank := func(p float64) time.Duration { return lateness[max(0, int(p*float64(n)+0.999999)-1)] } // nearest rank
	return Lateness{Tasks: n, P50: rank(0.50), P99: rank(0.99), Max: lateness[n-1]}
}
