package bench

import (
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/belfryhq/belfry/client"
)

// Config describes a measurement.
type Config struct {
	Calls    *client.Client // schedules and cancels
	Receiver *client.Client // consumes, and cleans up

	Queue   string  // in which there must be nothing; see NewQueue
	Tasks   int     // tasks to schedule
	Rate    float64 // tasks a second; 0: as fast as the callers can
	Callers int     // calls under way at once
	Payload int     // bytes of a task's payload
	Webhook string  // http URL of this machine by which nodes deliver; empty: tasks are leased
	Listen  string  // address to listen at for Webhook; empty: the port of Webhook, at all addresses

	Grace time.Duration // the time after its due time from which on a task counts as lost; 0: 10 s
}

const (
	minDelay    = 1 * time.Second
	maxDelay    = 4 * time.Second
	cancelDelay = 30 * time.Second // of the tasks to cancel
	cancelEvery = 10               // every tenth task is cancelled
	cancelAfter = 1 * time.Second  // after its planned call
	keepDone    = time.Minute      // how long the finished tasks can be read
	cleanupTime = 30 * time.Second

	defaultGrace = 10 * time.Second
	maxTasks     = 10_000_000
)

// NewQueue returns a random name of a queue.
func NewQueue() string { return "belfry-bench-" + strings.ToLower(rand.Text()[:8]) }

// Validate returns an error for settings without a meaning.
func (c *Config) Validate() error {
	switch {
	case c.Tasks < 1 || c.Tasks > maxTasks:
		return errors.New("the number of tasks is not within 1 to 10000000")
	case c.Rate < 0:
		return errors.New("the rate is negative")
	case c.Callers < 1 || c.Callers > 10_000:
		return errors.New("the number of clients is not within 1 to 10000")
	case c.Payload < 0 || c.Payload > 64<<10:
		return errors.New("the payload is not within 0 to 65536 bytes")
	case c.Webhook != "":
		_, err := c.listenAddr()
		return err
	}
	return nil
}
