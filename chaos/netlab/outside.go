package netlab

import "sync"

// cable leads from a host to this process. It has no quality but to be cut, in each direction.
type cable struct {
	set func(cutToHost, cutFromHost bool) error

	mu       sync.Mutex // guards what follows
	toHost   int        // how often it is cut
	fromHost int
	healed   int // how often it was: lifting what was cut before that is too late
}

// cut cuts once more, until lift is called.
func (c *cable) cut(toHost, fromHost bool) (lift func() error, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.healed
	err = c.add(toHost, fromHost, +1)
	return sync.OnceValue(func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.healed != before {
			return nil
		}
		return c.add(toHost, fromHost, -1)
	}), err
}

func (c *cable) add(toHost, fromHost bool, n int) error {
	if toHost {
		c.toHost += n
	}
	if fromHost {
		c.fromHost += n
	}
	return c.set(c.toHost > 0, c.fromHost > 0)
}

func (c *cable) heal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.healed++
	c.toHost, c.fromHost = 0, 0
	return c.set(false, false)
}
