package linear

import (
	"bytes"

	"github.com/belfryhq/belfry/chaos/history"
)

// event is something that may happen between the calls that were answered, because it was asked for: the operations
// of one class, which do all the same, each once or never. Of these it is always the one that was asked for first that
// happens first: what another one could do then, it could do as well, and the other stays for later.
type event struct {
	operation
	starts []history.Instant // of the tries, in order
}

// most is how many of one class are told apart in state.used. Beyond it there are as many as it takes.
const most = 255

// ready tells whether one more of the class may happen before an instant, and since when.
func (e *event) ready(used int, by history.Instant) (since history.Instant, ok bool) {
	i := min(used, len(e.starts)-1)
	if used >= len(e.starts) && used < most {
		return 0, false
	}
	return e.starts[i], e.starts[i] <= by
}

// happen gives what a task may be after each event that is possible before an instant and leaves a trace.
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

// times is how often events of a class have happened.
func (s state) times(class int) int {
	if class >= len(s.used) {
		return 0
	}
	return int(s.used[class])
}

// use counts one more event of a class.
func use(used string, class int) string {
	counts := append([]byte(used), bytes.Repeat([]byte{0}, max(0, class+1-len(used)))...)
	counts[class] = min(counts[class], most-1) + 1
	return string(counts)
}
