package linear

import (
	"bytes"

	"github.com/belfryhq/belfry/chaos/history"
)

// event is a class of equal operations of unknown outcome. Each of them may happen once between the steps, or never.
// The earliest start is always used first: any later operation of the class has the same effect, and stays available.
type event struct {
	operation
	starts []history.Instant // starts of the tries, in order
}

// most is the largest count of one class in state.used. A class that reached it never runs out.
const most = 255

// ready reports whether one more operation of the class may happen before an instant, and the start of that operation.
func (e *event) ready(used int, by history.Instant) (since history.Instant, ok bool) {
	i := min(used, len(e.starts)-1)
	if used >= len(e.starts) && used < most {
		return 0, false
	}
	return e.starts[i], e.starts[i] <= by
}

// happen yields the state of the task after each event that may happen before an instant and changes the task.
func (p *partition) happen(s state, by history.Instant, yield func(state)) {
	for class := range p.events {
		e := &p.events[class]
		since, ok := e.ready(s.times(class), by)
		if !ok {
			continue
		}
		e.perform(s, func(r result) {
			if !r.changed {
				return
			}
			next, _ := r.next.at(0)
			next.after = max(next.after, since)
			next.used = use(next.used, class)
			yield(next)
		})
	}
}

// times returns the number of events of a class that happened.
func (s state) times(class int) int {
	if class >= len(s.used) {
		return 0
	}
	return int(s.used[class])
}

// use returns used with one more event of a class.
func use(used string, class int) string {
	counts := append([]byte(used), bytes.Repeat([]byte{0}, max(0, class+1-len(used)))...)
	counts[class] = min(counts[class], most-1) + 1
	return string(counts)
}
