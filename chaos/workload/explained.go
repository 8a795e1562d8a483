package workload

import "github.com/belfryhq/belfry/chaos/history"

// unexplained are the ids of the load that are worth a read: all whose end the record does not show by itself, and
// sample of the others.
func (l *Load) unexplained(sample int) (ids []string) {
	l.cfg.Recorder.View(func(h *history.History) { ids = worthReading(h, sample) })
	return ids
}

// worthReading are ids in the order of their first calls.
func worthReading(h *history.History, sample int) []string {
	lives := map[string]*life{}
	var all []string
	of := func(id string) *life {
		l := lives[id]
		if l == nil {
			l = new(life)
			lives[id] = l
			all = append(all, id)
		}
		return l
	}
	for i := range h.Calls {
		of(h.Calls[i].ID).call(&h.Calls[i])
	}
	for i := range h.Arrivals {
		of(h.Arrivals[i].ID).arrive(&h.Arrivals[i])
	}
	var worth []string
	for _, id := range all {
		if lives[id].explained() {
			if sample <= 0 {
				continue
			}
			sample--
		}
		worth = append(worth, id)
	}
	return worth
}

// life is what the record shows of a task, counted.
type life struct {
	schedules, cancels, acks, arrivals uint16
	taken                              bool // an arrival was
	pulled                             bool // an arrival was
	more                               bool // there is something that only a read explains
}

func (l *life) call(c *history.Call) {
	switch {
	case !c.Kind.Changes():
	case c.Kind == history.Schedule && c.Outcome == history.OK:
		l.schedules++
	case c.Kind == history.Cancel && c.Outcome == history.OK && c.Answer.Cancel == "cancelled":
		l.cancels++
	case c.Kind == history.Ack && c.Outcome == history.OK:
		l.acks++
	default:
		l.more = true
	}
}

func (l *life) arrive(a *history.Arrival) {
	l.arrivals++
	l.taken = l.taken || a.Delivered()
	l.pulled = l.pulled || a.Pulled
}

// explained: it was scheduled once, and then either came once and was taken, or was cancelled and never came.
func (l *life) explained() bool {
	if l.more || l.schedules != 1 {
		return false
	}
	switch l.arrivals {
	case 0:
		return l.cancels == 1
	case 1:
		return l.cancels == 0 && (l.pulled && l.acks == 1 || l.taken && l.acks == 0)
	}
	return false
}
