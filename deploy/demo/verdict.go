package demo

import (
	"slices"
	"time"
)

// Verdict is what the run came to.
type Verdict struct {
	Scheduled int // acknowledged
	Delivered int // of these, at least once
	Lost      int // of these, never
	Early     int // tasks of which an arrival came before their time
	Repeats   int // arrivals beyond a task's first
	Altered   int // tasks of which a repeat came under another webhook-id

	Killed   string        // the node
	Shards   int           // that it led
	Failover time.Duration // from the kill until all of them took writes again

	All    Lateness
	Window Lateness // of what was due while the failover lasted
	Calm   Lateness // of all the rest
	bins   []bin
}

// OK tells whether the run went as promised: nothing was lost, nothing came early, and repeats could be told.
func (v *Verdict) OK() bool { return v.Lost == 0 && v.Early == 0 && v.Altered == 0 && v.Delivered > 0 }

// Lateness sums up how late the first arrivals of some tasks were.
type Lateness struct {
	Tasks         int
	P50, P99, Max time.Duration
}

// failover is the time during which lateness is the failover's.
type failover struct {
	victim string
	shards int
	killed time.Time
	over   time.Time
}

const (
	// What was due just before the kill may have been granted and not delivered by then.
	windowHead = 50 * time.Millisecond
	// The first thing after a takeover is what became due meanwhile.
	windowTail = 250 * time.Millisecond
)

func (f failover) covers(due time.Time) bool {
	return !due.Before(f.killed.Add(-windowHead)) && !due.After(f.over.Add(windowTail))
}

// bin is one bar of the histogram: first arrivals less late than below, and not less than the bin before.
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

// judge makes the verdict.
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
