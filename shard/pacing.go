package shard

import (
	"time"

	"github.com/belfryhq/belfry/fsm/task"
)

// While users call, a backlog is granted in bursts with rests between them.
const (
	burst     = 512 // tasks
	restsLast = 32  // times as long as an entry takes, within
	minRest   = 5 * time.Millisecond
	maxRest   = 80 * time.Millisecond // so a shard grants at least some 6000 a second
	// usersStay is for how long users count as being there after a command of theirs. A machine that is swamped keeps
	// their calls waiting long before this shard sees them.
	usersStay = time.Second
)

// pacing keeps a backlog of due tasks from taking the machine from users for as long as it lasts. The proposer's
// goroutine owns it.
type pacing struct {
	commit  time.Duration // how long an entry takes: the average of the last few
	called  time.Time     // when a user's command last went into an entry
	granted int           // tasks of a backlog since the last rest or since there was none; 0 <= granted < burst
	until   time.Time     // when the last rest ends
}

// usersCall notes a user's command in the entry that is being put together.
func (p *pacing) usersCall(now time.Time) { p.called = now }

func (p *pacing) usersAreThere(now time.Time) bool { return now.Sub(p.called) < usersStay }

func (p *pacing) isResting(now time.Time) bool { return p.usersAreThere(now) && now.Before(p.until) }

// room is how many tasks that wait may be granted by one entry.
func (p *pacing) room(now time.Time) int {
	switch {
	case !p.usersAreThere(now):
		return maxGrants
	case p.isResting(now):
		return 0
	}
	return burst - p.granted
}

// credit is how many of the tasks that consumers ask for an Advance may grant in a lane. What comes due where others
// wait already waits behind them.
func (p *pacing) credit(now time.Time, asked, waiting int) int {
	switch {
	case !p.usersAreThere(now):
		return asked
	case waiting > 0:
		return 0
	}
	return min(asked, burst)
}

// landed takes what an entry has granted, how long it took, and how many tasks then wait where it granted some. It was
// about a backlog if it granted what had waited, or if an Advance found more than a burst at once. Where less than a
// burst waits there is none: consumers that come back for what came due meanwhile get it. Most entries are about none,
// and nobody looks for what waits then.
func (p *pacing) landed(now time.Time, took time.Duration, granted int, ofBacklog bool, waiting func() int) {
	p.commit += (took - p.commit) / 4
	ofBacklog = ofBacklog || granted >= burst
	switch {
	case !p.usersAreThere(now) || granted == 0 || !ofBacklog && p.granted == 0:
		return
	case waiting() < burst:
		p.granted = 0
		return
	case !ofBacklog:
		return
	}
	if p.granted += granted; p.granted >= burst {
		p.granted = 0
		p.until = now.Add(min(max(restsLast*p.commit, minRest), maxRest))
	}
}

// waitingBeside is how many tasks wait in the lanes that an entry granted something in.
func waitingBeside(grants []task.Grant, loads []task.LaneLoad) (n int) {
	granted := make(map[task.Lane]bool)
	for _, g := range grants {
		granted[g.Lane] = true
	}
	for _, load := range loads {
		if granted[load.Lane] {
			n += load.Ready
		}
	}
	return n
}
