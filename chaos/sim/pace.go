package sim

import (
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/shard"
)

// pace is how fast a cluster lives. Simulated time costs what happens in it, and in an idle cluster that is heartbeats:
// so a cluster that is to live for weeks has slow ones, and faults and tasks that last accordingly. What takes
// milliseconds in one takes milliseconds in all: networks, disks, and with them commits.
type pace struct {
	name      string
	heartbeat time.Duration
	span      [2]time.Duration // of load and faults, at least and at most
	hold      [2]time.Duration // of a fault
	calm      [2]time.Duration // between two episodes of faults
	maxDelay  time.Duration    // of a task
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
	// settling is how long a verdict may wait for its entry: a slow disk's writes take up to diskPatience, and several
	// wait for each other.
	settling     = 30 * time.Second
	diskPatience = 10 * time.Second
	// elections is how many heartbeats' time it may take until a leader is elected and answers.
	elections = 15
	// stuckAfter is how many heartbeats' time a leader may try to commit something. Raft tries again once in one or two.
	stuckAfter = 40
)

// timing is production's with another heartbeat.
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

// recovery is how long it takes at most until everything works again.
func (p pace) recovery() time.Duration { return elections*p.heartbeat + settling }

func (p pace) limits() check.Limits {
	back := p.recovery()
	return check.Limits{
		Settle: settling, Tail: back, Recover: back, FirstFire: back, Detect: back, Surprise: 2*p.heartbeat + settling,
	}
}

// rpcTimeout is how long Raft waits for an answer.
func (p pace) rpcTimeout() time.Duration { return min(p.heartbeat, 5*time.Second) }

// callTimeout is how long a node tries to carry out a call.
func (p pace) callTimeout() time.Duration { return max(2*time.Second, p.heartbeat/2) }

// retryFor is how long a caller repeats a call.
func (p pace) retryFor() time.Duration { return 2 * p.recovery() }
