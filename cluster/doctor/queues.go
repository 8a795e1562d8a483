package doctor

import (
	"fmt"
	"strings"
	"time"
)

// The bounds from which on the state of a queue is reported.
const (
	manyRetrying = 3           // tasks between attempts while none was delivered
	leastKept    = time.Minute // of tombstones, so that their absence says something
	longOverdue  = time.Minute // of the oldest ready task
	manyDead     = 1000
	someDead     = 10 // if fewer were delivered
)

// queues finds queues that do not deliver as they should.
func (e *examination) queues() {
	for _, q := range e.Queues {
		switch {
		case q.Paused:
			if q.Ready > 0 {
				e.add(Note, QueuePaused, sentence("queue %s is paused, and %d %s due and %s in it.", q.title(), q.Ready,
					verb(int(q.Ready), "task is", "tasks are"), verb(int(q.Ready), "waits", "wait")),
					q.command("belfry queue resume"))
			}
		case len(q.Broken) > 0:
			e.broken(q)
		case q.Fails():
			e.fails(q)
		case q.Late():
			e.late(q)
		}
		if q.Dies() {
			e.add(Warning, DeadLetters, sentence("queue %s has %d dead letters%s. They are kept until they are replayed or "+
				"dropped.", q.title(), q.Dead, inBrackets(q.Death)), q.command("belfry dead list"), q.command("belfry dead replay"))
		}
	}
}

// Late reports whether tasks have waited for long although they are due.
func (q Queue) Late() bool { return q.Ready > 0 && q.Overdue >= longOverdue }

// Fails reports whether attempts were made, and none was a success. While a circuit breaker is open, few tasks or none
// are between two attempts, and the others wait for one.
func (q Queue) Fails() bool {
	return q.Delivered == 0 && q.KeepDone >= leastKept &&
		(q.Retrying >= manyRetrying || q.Late() && !q.Pulled && (q.Retrying > 0 || q.Failure != ""))
}

// Dies reports whether many tasks have become dead letters, or more than were delivered.
func (q Queue) Dies() bool { return q.Dead >= manyDead || q.Dead >= someDead && q.Dead > q.Delivered }

// inBrackets returns a text in brackets behind a space, or nothing for none.
func inBrackets(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// namedBroken is the largest number of broken receivers that a finding names.
const namedBroken = 3

// broken reports the receivers of a queue whose circuit breakers are open.
func (e *examination) broken(q Queue) {
	var named []string
	for _, b := range q.Broken[:min(len(q.Broken), namedBroken)] {
		named = append(named, fmt.Sprintf("%s has failed for %s (%s), and %d %s for it", b.Name,
			span(b.For), b.LastError, b.Waiting, verb(int(b.Waiting), "task waits", "tasks wait")))
	}
	if n := len(q.Broken) - len(named); n > 0 {
		named = append(named, fmt.Sprintf("and %d more %s", n, verb(n, "receiver fails", "receivers fail")))
	}
	e.add(Warning, ReceiverBroken, sentence("queue %s: %s. A receiver that fails gets one attempt at a time, which does "+
		"not use up a task's attempts, until one succeeds.", q.title(), strings.Join(named, "; ")),
		q.command("belfry queue get"), q.command("belfry task list --state retrying,ready --queue"))
}

func (e *examination) fails(q Queue) {
	waiting := q.Retrying + q.Ready
	e.add(Warning, QueueFailing, sentence("queue %s has delivered nothing in the last %s: its receiver fails%s. %d %s "+
		"for a success. Attempts are repeated with growing pauses, and tasks whose attempts are used up become dead letters.",
		q.title(), span(q.KeepDone), inBrackets(q.Failure), waiting, verb(int(waiting), "task waits", "tasks wait")),
		q.command("belfry task list --state retrying,ready --queue"), q.command("belfry queue pause"))
}

func (e *examination) late(q Queue) {
	code, cause := QueueBehind, "the receiver is slower than the schedule"
	switch {
	case q.Limited:
		code, cause = QueueAtLimit, "the queue is at its limit"+inBrackets(q.Limit)
	case q.Pulled && q.Leased == 0:
		code, cause = QueueNoConsumer, "no consumer has a lease. Start one, or name a receiver for the queue"
	case q.Pulled:
		cause = "consumers are slower than the schedule"
	case q.Failure != "":
		cause = fmt.Sprintf("some attempts fail (%s)", q.Failure)
	case q.Grouped:
		cause = "the receiver, or the limit of a group, is slower than the schedule"
	}
	e.add(Warning, code, sentence("%d %s of queue %s %s due and %s, the oldest for %s: %s.", q.Ready,
		verb(int(q.Ready), "task", "tasks"), q.title(), verb(int(q.Ready), "is", "are"),
		verb(int(q.Ready), "waits", "wait"), span(q.Overdue), cause), q.command("belfry queue get"))
}

// title returns the name of the queue for people.
func (q Queue) title() string {
	if q.Namespace == "" {
		return q.Name
	}
	return q.Name + " of namespace " + q.Namespace
}

// command returns a command for the queue.
func (q Queue) command(text string) string {
	if q.Namespace == "" {
		return command(text, q.Name)
	}
	return command(text, q.Name, "--namespace", q.Namespace)
}
