package workload

import "github.com/belfryhq/belfry/chaos/history"

// unexplained returns the ids of the load that ReadAll reads: all whose end the record does not show, and up to sample
// of the others.
func (l *Load) unexplained(sample int) (ids []string) {
	l.cfg.Recorder.View(func(h *history.History) { ids = worthReading(h.In(l.cfg.Namespace), sample) })
	return ids
}

// worthReading returns these ids of a history, in the order of their first calls.
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

// life counts the calls and arrivals of a task in the record.
type life struct {
	schedules, cancels, acks, arrivals uint16
	taken                              bool // the receiver accepted an attempt
	pulled                             bool // a consumer leased the task
	more                               bool // a call happened whose effect only a read explains
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

// explained reports whether the record alone shows the end of a task. Such a task was scheduled once. It then either
// arrived once and was taken, or was cancelled and never arrived.
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
