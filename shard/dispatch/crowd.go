package dispatch

import (
	"sync"

	"github.com/belfryhq/belfry/fsm/task"
)

// Crowd counts the attempts under way on a node over all its shards, and says how many more may begin. An attempt costs
// a connection, a file descriptor and some memory until its receiver answers, and receivers may take minutes.
//
//	8/16   attempts at receivers whose last answer was not a success begin while fewer than this part of it are under way
//	12/16  the same for receivers that are known to be well, and for attempts that a Takeover renewed
//	13/16  for queues with less than 1/16 under way
//	15/16  for namespaces with less than 2/16 under way
//
// So the silent receivers of one queue, or of one namespace, do not hold back the others. Its methods are safe for
// concurrent use.
type Crowd struct {
	strangers int

	mu     sync.Mutex
	all    int
	spaces map[string]int
	queues map[QueueName]int
}

// NewCrowd returns a Crowd of at most so many attempts. Entries that shards make at once may exceed the lower bounds.
func NewCrowd(most int) *Crowd {
	return &Crowd{strangers: max(most/2, 1), spaces: map[string]int{}, queues: map[QueueName]int{}}
}

func queueNamed(l task.Lane) QueueName { return QueueName{l.Namespace, l.Queue} }

// Begin counts an attempt at a receiver of the lane.
func (c *Crowd) Begin(l task.Lane) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count(l, 1)
}

// TryBegin is Begin for an attempt that no plan has admitted. It returns false if too many are under way.
func (c *Crowd) TryBegin(l task.Lane) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= c.bound(true) {
		return false
	}
	c.count(l, 1)
	return true
}

// End takes back a Begin, or a TryBegin that returned true.
func (c *Crowd) End(l task.Lane) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count(l, -1)
}

func (c *Crowd) count(l task.Lane, n int) {
	q := queueNamed(l)
	c.all += n
	if c.spaces[q.Namespace] += n; c.spaces[q.Namespace] == 0 {
		delete(c.spaces, q.Namespace)
	}
	if c.queues[q] += n; c.queues[q] == 0 {
		delete(c.queues, q)
	}
}

// Load returns the number of attempts under way, and the number from which on strangers wait.
func (c *Crowd) Load() (attempts, strangers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all, c.strangers
}

// few is the number of attempts up to which a queue has a part of the crowd for itself and others like it. A namespace
// has twice as many.
func (c *Crowd) few() int { return c.strangers / 8 }

// most is the number of attempts from which on no plan begins another.
func (c *Crowd) most() int { return c.strangers + 7*c.few() }

func (c *Crowd) bound(well bool) int {
	if well {
		return c.strangers + 4*c.few()
	}
	return c.strangers
}

// room returns how many more attempts of a queue may begin at a receiver, beside those that an entry begins, in all and
// of the queue's namespace.
func (c *Crowd) room(q QueueName, well bool, begun, ofSpace int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, few := c.all+begun, c.few()
	ofQueue := min(few-c.queues[q]-ofSpace, c.most()-2*few-all)
	return max(c.bound(well)-all, ofQueue, min(2*few-c.spaces[q.Namespace]-ofSpace, c.most()-all), 0)
}

// left returns how many more attempts may begin at all.
func (c *Crowd) left(begun int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most() - c.all - begun
}

// open returns how many more attempts may begin at strangers, whatever their queue.
func (c *Crowd) open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.strangers-c.all, 0)
}
