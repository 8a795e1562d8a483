package dispatch

import (
	"time"

	"github.com/belfryhq/belfry/fsm/task"
)

// The limits of a backlog's bursts and rests while users call.
const (
	burst     = 512 // tasks
	restsLast = 32  // length of a rest, in durations of an entry, within minRest and maxRest
	minRest   = 5 * time.Millisecond
	maxRest   = 80 * time.Millisecond // lets a shard grant at least some 6000 tasks a second
	// usersStay is how long users count as calling after their last command. It is long because an overloaded machine
	// delays their calls well before this shard sees them.
	usersStay = time.Second
)

// backlog limits the grants of due tasks that have piled up, so that users have the machine for most of the time.
type backlog struct {
	commit  time.Duration // duration of an entry: a moving average
	called  time.Time     // when a user's command was last in an entry
	granted int           // tasks of the backlog granted since its start or last rest; 0 <= granted < burst
	until   time.Time     // end of the last rest
}

// usersCall reports whether a user has called within usersStay.
func (b *backlog) usersCall(now time.Time) bool { return now.Sub(b.called) < usersStay }

func (b *backlog) isResting(now time.Time) bool { return b.usersCall(now) && now.Before(b.until) }

// besideRest is the number of tasks that one entry may grant during a rest, of namespaces that have no backlog.
const besideRest = burst / 8

// room returns the number of waiting tasks that one entry may grant.
func (b *backlog) room(now time.Time) int {
	switch {
	case !b.usersCall(now):
		return maxGrants
	case b.isResting(now):
		return besideRest
	}
	return burst - b.granted
}

// credit returns how many of the asked tasks an Advance may grant in a lane with waiting tasks. While users call, a
// task that comes due in a lane waits behind the tasks already there.
func (b *backlog) credit(now time.Time, asked, waiting int) int {
	switch {
	case !b.usersCall(now):
		return asked
	case waiting > 0:
		return 0
	}
	return min(asked, burst)
}

// timed records an entry's duration.
func (b *backlog) timed(took time.Duration) { b.commit += (took - b.commit) / 4 }

// applied records an entry's grants and duration. waited is set if granted tasks had waited before the entry. waiting
// counts the tasks that still wait in the lanes with a grant. An entry belongs to a backlog if its granted tasks had
// waited, or if its Advance granted a burst at once. With less than a burst waiting there is no backlog, and consumers
// who return for newly due tasks get them. Most entries belong to no backlog and skip the call of waiting.
func (b *backlog) applied(now time.Time, took time.Duration, granted int, waited bool, waiting func() int) {
	b.timed(took)
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

// waitingBeside returns the number of waiting tasks in the lanes where an entry granted tasks.
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
