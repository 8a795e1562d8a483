package rabbitmq

import (
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	ready       = "ready" // queue that consumers read
	waiting     = "waiting"
	waitingLong = "waiting.long" // queue of tasks due later than this:
	longDelay   = time.Hour
	mostQueues  = 100             // limit of the queues in which tasks wait
	keptForIdle = 5 * time.Minute // lifetime of a second's queue after the second
)

// quorum returns the arguments of a quorum queue.
func quorum(more amqp.Table) amqp.Table {
	args := amqp.Table{"x-queue-type": "quorum"}
	for name, value := range more {
		args[name] = value
	}
	return args
}

// delays knows the queues in which tasks wait. All callers share it.
type delays struct {
	perSecond bool

	mu    sync.Mutex
	known map[string]bool
}

// queue returns the name of the queue for a due instant. It declares the queue on first use.
func (d *delays) queue(channel *amqp.Channel, due time.Time) (string, error) {
	name := waiting
	switch {
	case d.perSecond:
		name = fmt.Sprintf("%s.%d", waiting, due.Unix())
	case time.Until(due) > longDelay:
		name = waitingLong
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known[name] {
		return name, nil
	}
	if len(d.known) == mostQueues {
		return "", fmt.Errorf("the due instants spread over more than %d seconds, with a queue for each", mostQueues)
	}
	_, err := channel.QueueDeclare(name, true, false, false, false, d.arguments(due))
	if err == nil {
		d.known[name] = true
	}
	return name, err
}

func (d *delays) arguments(due time.Time) amqp.Table {
	args := quorum(amqp.Table{
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": ready,
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	})
	if d.perSecond {
		args["x-expires"] = (max(0, time.Until(due)) + keptForIdle).Milliseconds()
	}
	return args
}
