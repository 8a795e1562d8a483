package sim

import (
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/shard"
)

// pace sets the time scale of a cluster. The cost of simulated time is the events in it, and in an idle cluster these
// are heartbeats. So a cluster that lives for weeks has slow heartbeats, and faults and tasks that last accordingly.
// Networks, disks and commits take milliseconds at every pace.
type pace struct {
	name      string
	heartbeat time.Duration
	span      [2]time.Duration // least and most duration of load and faults
	hold      [2]time.Duration // least and most duration of a fault
	calm      [2]time.Duration // least and most time between two episodes
	maxDelay  time.Duration    // longest delay of a task
}

var paces = []pace{
	{
		name: "hour", heartbeat: time.Second, span: span(20*time.Minute, time.Hour),
		hold: span(50*time.Millisecond, 45*time.Second), calm: span(15*time.Second, 3*time.Minute), maxDelay: 3 * time.Minute,
	},
	{
		name: "day", heartbeat: 15 * time.Second, span: span(10*time.Hour, 36*time.Hour),
		hold: span(100*time.Millisecond, 15*time.Minute), calm: span(5*time.Minute, 2*time.Hour), maxDelay: 6 * time.Hour,
	},
	{
		name: "weeks", heartbeat: 4 * time.Minute, span: span(7*24*time.Hour, 21*24*time.Hour),
		hold: span(time.Second, 8*time.Hour), calm: span(time.Hour, 36*time.Hour), maxDelay: 4 * 24 * time.Hour,
	},
}

func span(least, most time.Duration) [2]time.Duration { return [2]time.Duration{least, most} }

const (
	// settling is the longest time from a verdict to the commit of its entry. A write of a slow disk takes up to
	// diskPatience, and several writes wait for each other.
	settling     = 30 * time.Second
	diskPatience = 10 * time.Second
	// elections is the longest time until a shard has elected a leader that answers, in heartbeats.
	elections = 15
	// stuckAfter is how long a leader may try to commit an entry, in heartbeats. Raft tries again every one or two
	// heartbeats.
	stuckAfter = 40
)

// timing returns the timing of production (shard.LAN) with the heartbeat of the pace.
func (p pace) timing() shard.Timing {
	t := shard.LAN()
	h := p.heartbeat
	t.Heartbeat, t.Election, t.Lease, t.Commit = h, h, h, h
	t.Beat = h / 5
	t.HeadStart, t.Calm = 2*h, 6*h
	t.Stuck = stuckAfter * h
	t.ClockLook = max(2*time.Second, h/4)
	return t
}

// recovery returns the longest time from the mending of faults until everything works again.
func (p pace) recovery() time.Duration { return elections*p.heartbeat + settling }

func (p pace) limits() check.Limits {
	back := p.recovery()
	return check.Limits{
		Settle: settling, Tail: back, Recover: back, FirstFire: back, Detect: back, Surprise: 2*p.heartbeat + settling,
	}
}

// rpcTimeout returns how long Raft waits for an answer.
func (p pace) rpcTimeout() time.Duration { return min(p.heartbeat, 5*time.Second) }

// callTimeout returns how long a node tries to carry out a call.
func (p pace) callTimeout() time.Duration { return max(2*time.Second, p.heartbeat/2) }

// retryFor returns how long a caller repeats a call.
func (p pace) retryFor() time.Duration { return 2 * p.recovery() }
