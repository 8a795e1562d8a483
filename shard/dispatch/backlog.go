package dispatch

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
	// usersStay is how long users count as calling after a command of theirs. An overloaded machine keeps their calls
	// waiting long before this shard sees them.
	usersStay = time.Second
)

// backlog bounds the grants of due tasks that have piled up, so that they leave the machine to users for most of the
// time.
type backlog struct {
	commit  time.Duration // how long an entry takes: the average of the last few
	called  time.Time     // when a user's command last went into an entry
	granted int           // tasks of a backlog since the last rest, or since there was none; 0 <= granted < burst
	until   time.Time     // when the last rest ends
}

// usersCall reports whether users have called lately.
func (b *backlog) usersCall(now time.Time) bool { return now.Sub(b.called) < usersStay }

func (b *backlog) isResting(now time.Time) bool { return b.usersCall(now) && now.Before(b.until) }

// room returns how many waiting tasks one entry may grant.
func (b *backlog) room(now time.Time) int {
	switch {
	case !b.usersCall(now):
		return maxGrants
	case b.isResting(now):
		return 0
	}
	return burst - b.granted
}

// credit returns how many of the tasks that consumers ask for an Advance may grant in a lane. A task that comes due in
// a lane where others wait has to wait behind them.
func (b *backlog) credit(now time.Time, asked, waiting int) int {
	switch {
	case !b.usersCall(now):
		return asked
	case waiting > 0:
		return 0
	}
	return min(asked, burst)
}

// applied takes an entry's grants and duration. waited says that tasks were granted that had waited, and waiting counts
// the tasks that still wait in the lanes with a grant. An entry is about a backlog if it granted tasks that had waited,
// or if its Advance granted a burst at once. Where less than a burst waits there is no backlog: consumers that come
// back for what came due meanwhile get it. Most entries are about none, and then waiting is not called.
func (b *backlog) applied(now time.Time, took time.Duration, granted int, waited bool, waiting func() int) {
	b.commit += (took - b.commit) / 4
	waited = waited || granted >= burst
	switch {
	case !b.usersCall(now) || granted == 0 || !waited && b.granted == 0:
		return
	case waiting() < burst:
		b.granted = 0
		return
	case !waited:
		return
	}
	if b.granted += granted; b.granted >= burst {
		b.granted = 0
		b.until = now.Add(min(max(restsLast*b.commit, minRest), maxRest))
	}
}

// waitingBeside returns how many tasks wait in the lanes that an entry granted something in.
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
