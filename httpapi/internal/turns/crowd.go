package turns

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// crowdedFor is how long a node counts as crowded after the last call of another namespace than the call before.
const crowdedFor = time.Second

// crowdedLines is the number of a batch's lines in one commit while the node is crowded, for a weight of one.
const crowdedLines = 64

// Crowd bounds the commits of batches while several namespaces call a node: each namespace has one at a time, of few
// lines. It is safe for concurrent use.
type Crowd struct {
	weight func(namespace string) int

	mu      sync.Mutex
	newest  string // namespace of the last call
	mixed   time.Time
	commits map[string]*commits // of namespaces with a commit under way, or waiting
}

// commits is the place for the commits of one namespace.
type commits struct {
	place *semaphore.Weighted
	users int // that hold the place, or wait for it
}

// NewCrowd returns a crowd without calls. A namespace's commits are as long as its weight allows; nil: all weigh one.
func NewCrowd(weight func(namespace string) int) *Crowd {
	return &Crowd{weight: weight, commits: map[string]*commits{}}
}

// Seen notes a call of a namespace.
func (c *Crowd) Seen(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if namespace != c.newest && c.newest != "" {
		c.mixed = time.Now()
	}
	c.newest = namespace
}

func (c *Crowd) isMixed() bool { return !c.mixed.IsZero() && time.Since(c.mixed) < crowdedFor }

// Commit waits until a namespace may commit some lines of a batch. It returns how many of the lines, and the function
// to call when they are committed. Its error is the context's.
func (c *Crowd) Commit(ctx context.Context, namespace string, lines int) (n int, done func(), err error) {
	place := c.enter(namespace)
	if place == nil {
		return lines, func() {}, nil
	}
	if err := place.Acquire(ctx, 1); err != nil {
		c.leave(namespace)
		return 0, nil, err
	}
	return min(lines, crowdedLines*weightOf(c.weight, namespace)), func() {
		place.Release(1)
		c.leave(namespace)
	}, nil
}

// enter returns the place of a namespace, or nil if the node is not crowded.
func (c *Crowd) enter(namespace string) *semaphore.Weighted {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isMixed() {
		return nil
	}
	own := c.commits[namespace]
	if own == nil {
		own = &commits{place: semaphore.NewWeighted(1)}
		c.commits[namespace] = own
	}
	own.users++
	return own.place
}

func (c *Crowd) leave(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := c.commits[namespace]
	if own.users--; own.users == 0 {
		delete(c.commits, namespace)
	}
}
