package doctor

import "time"

// The bounds from which on the state of a queue is reported.
const (
	manyRetrying = 10          // tasks between attempts while none was delivered
	leastKept    = time.Minute // of tombstones, so that their absence says something
	longOverdue  = time.Minute // of the oldest ready task
	manyDead     = 1000
	someDead     = 100 // if fewer were delivered
)

// queues finds queues that do not deliver as they should.
func (e *examination) queues() {
	for _, q := range e.Queues {
		switch late := q.Ready > 0 && q.Overdue >= longOverdue; {
		case q.Paused:
			if q.Ready > 0 {
				e.add(Note, QueuePaused, sentence("queue %s is paused, and %d tasks that are due wait in it.", q.title(), q.Ready),
					q.command("belfry queue resume "+q.Name))
			}
		case q.Retrying >= manyRetrying && q.Delivered == 0 && q.KeepDone >= leastKept:
			e.add(Warning, QueueFailing, sentence("queue %s has delivered nothing in the last %s, and %d tasks wait for "+
				"another attempt: its receivers fail. Attempts are repeated with growing pauses, and become dead letters at last.",
				q.title(), span(q.KeepDone), q.Retrying),
				q.command("belfry task list --queue "+q.Name+" --state retrying"), q.command("belfry queue pause "+q.Name))
		case late && q.Limited:
			e.add(Warning, QueueAtLimit, sentence("queue %s is at its limit: %d tasks are due and wait, the oldest for %s.",
				q.title(), q.Ready, span(q.Overdue)), q.command("belfry queue get "+q.Name))
		case late:
			e.behind(q)
		}
		if q.Dead >= manyDead || q.Dead >= someDead && q.Dead > q.Delivered {
			e.add(Warning, DeadLetters, sentence("queue %s has %d dead letters. They are kept until they are replayed or "+
				"dropped.",
				q.title(), q.Dead), q.command("belfry dead list "+q.Name), q.command("belfry dead replay "+q.Name))
		}
	}
}

func (e *examination) behind(q Queue) {
	cause := "no consumer takes them, or too slowly"
	if q.Push {
		cause = "the receiver is slower than the schedule"
	}
	e.add(Warning, QueueBehind, sentence("%d tasks of queue %s are due and wait, the oldest for %s: %s.",
		q.Ready, q.title(), span(q.Overdue), cause), q.command("belfry queue get "+q.Name))
}

// title returns the name of the queue for people.
func (q Queue) title() string {
	if q.Namespace == "" {
		return q.Name
	}
	return q.Name + " of namespace " + q.Namespace
}

// command returns a command for the queue's namespace.
func (q Queue) command(text string) string {
	if q.Namespace == "" {
		return text
	}
	return text + " --namespace " + q.Namespace
}
