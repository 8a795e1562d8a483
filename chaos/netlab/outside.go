package netlab

import "sync"

// cable connects a host with this process. It can only be cut, in each direction.
type cable struct {
	set func(cutToHost, cutFromHost bool) error

	mu       sync.Mutex // guards the fields below
	toHost   int        // number of cuts that are not lifted
	fromHost int
	healed   int // number of heals: a lift of an earlier cut does nothing
}

// cut adds a cut until lift is called.
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
