package local

import "fmt"

// Kind says what happened to a node.
type Kind string

// What happens to nodes.
const (
	Started Kind = "started"
	Stopped Kind = "stopped" // as it was told to
	Killed  Kind = "killed"  // by Kill
	Died    Kind = "died"    // by itself, or by a stranger's hand
)

// Event is something that happened to a node.
type Event struct {
	Node string
	Kind Kind
	PID  int
	Err  error // how a process that died ended; nil: with exit code 0
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

// eventBacklog is how many events wait for a reader. Who does not read misses the newest, and holds nobody up.
const eventBacklog = 256
