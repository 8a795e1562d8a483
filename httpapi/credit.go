package httpapi

import (
	"context"
	"fmt"
	"sync"

	"github.com/belfryhq/belfry/fsm/task"
)

// maxCredit is how many tasks a consumer may ask a stream for ahead.
const maxCredit = 10_000

// credit is how many tasks a consumer still wants of its stream.
type credit struct {
	more chan struct{} // holds one token when left has grown since wait looked

	mu   sync.Mutex
	left int // 0 <= left <= maxCredit
}

func newCredit(n int) *credit { return &credit{left: n, more: make(chan struct{}, 1)} }

// add gives more, all of it or, over the limit, none.
func (c *credit) add(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left+n > maxCredit {
		return &task.FieldError{Field: "credit", Detail: fmt.Sprintf("would be %d in all", c.left+n),
			Limit: fmt.Sprint(maxCredit)}
	}
	c.left += n
	select {
	case c.more <- struct{}{}:
	default:
	}
	return nil
}

func (c *credit) spend(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = max(c.left-n, 0)
}

func (c *credit) now() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left
}

// wait is the credit there is, once there is some; false when the context ends.
func (c *credit) wait(ctx context.Context) (int, bool) {
	for ctx.Err() == nil {
		if n := c.now(); n > 0 {
			return n, true
		}
		select {
		case <-c.more:
		case <-ctx.Done():
		}
	}
	return 0, false
}
