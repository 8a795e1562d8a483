package task

import "github.com/belfryhq/belfry/fsm/fsmpb"

// EventType is the kind of an Event.
type EventType uint8

// The kinds of events.
const (
	EventScheduled EventType = iota + 1 // a call or a schedule made the task, or a new occurrence of it
	EventMoved                          // the task waits for another instant
	EventFired                          // an attempt begins
	EventDelivered                      // an attempt succeeded
	EventFailed                         // an attempt failed
	EventDead                           // the task became a dead letter after its last attempt
	EventCancelled
	EventExpired // the task became a dead letter because no attempt began in time
	EventSkipped // an occurrence of a schedule did not run
)

// Event is one thing that happened to a task. It is a function of an entry of the log and the state before it.
type Event struct {
	Type          EventType
	Namespace, ID string
	Queue         string
	Labels        []*fsmpb.Label // shared; nobody changes them
	AtMs          int64          // instant of the entry; of EventFired: from then on the attempt may begin
	DueMs         int64          // instant that the task is due at, or waits for
	LatenessMs    int64          // of a first attempt: its start after fire_at
	Attempt       uint32         // 0: the event belongs to no attempt
	WebhookID     string         // of an event with an attempt
	BegunMs       int64          // of an ended attempt, its begin; 0: not known
	Node          string         // that made the attempt; empty: a consumer made it, or it has not ended
	Answer        string         // the error, the outcome of a cancel, or the reason of a skip
}
