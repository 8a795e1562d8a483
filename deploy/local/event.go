package local

import "fmt"

// Kind is the kind of an event.
type Kind string

// Kinds of events.
const (
	Started Kind = "started"
	Stopped Kind = "stopped" // by Terminate or Stop
	Killed  Kind = "killed"  // by Kill
	Died    Kind = "died"    // by itself, or by a signal from elsewhere
)

// Event is a start or an end of a node.
type Event struct {
	Node string
	Kind Kind
	PID  int
	Err  error // exit of the process; nil: exit status 0
}

func (e Event) String() string {
	if e.Kind != Died {
		return fmt.Sprintf("%s %s (pid %d)", e.Node, e.Kind, e.PID)
	}
	how := "exit status 0"
	if e.Err != nil {
		how = e.Err.Error()
	}
	return fmt.Sprintf("%s died (pid %d): %s", e.Node, e.PID, how)
}

// eventBacklog is the number of buffered events. When the buffer is full, new events are dropped, so that a slow reader
// does not block the cluster.
const eventBacklog = 256
