package clocks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Why Agrees does not return nil.
var (
	// ErrApart: a majority of the voters keeps another time than this node. It should not lead, and one of them should.
	ErrApart = errors.New("this node's clock is apart from those of a majority")
	// ErrUnsure: of too few voters it is known what time they keep, or they are at odds with each other.
	ErrUnsure = errors.New("no majority is known to keep one time")
)

// pingPatience is how long a voter has to tell its time. An answer that took longer would say little.
const pingPatience = 200 * time.Millisecond

// Agrees measures the voters' clocks anew and returns nil as soon as those of a majority, this node's included if it is
// one of them, are within the bound: whoever does not answer delays nothing. Who does not answer soon counts with what
// was known of it a short time ago.
func (c *Clocks) Agrees(ctx context.Context, voters []string) error {
	ctx, cancel := context.WithTimeout(ctx, pingPatience)
	defer cancel()
	type told struct {
		offset time.Duration
		known  bool
	}
	answers := make(chan told, len(voters))
	for _, v := range voters {
		go func() {
			offset, known := c.ask(ctx, v)
			answers <- told{offset, known}
		}()
	}
	var offsets []time.Duration
	err := ErrUnsure
	for range voters {
		if a := <-answers; a.known {
			offsets = append(offsets, a.offset)
		}
		if err = c.judge(offsets, len(voters)); !errors.Is(err, ErrUnsure) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%w: of %d voters %d told how far ahead they are, %v; %v are allowed",
			err, len(voters), len(offsets), offsets, c.cfg.MaxOffset)
	}
	return nil
}

func (c *Clocks) ask(ctx context.Context, node string) (offset time.Duration, known bool) {
	if node != c.cfg.Self {
		if err := c.measure(ctx, node); err != nil {
			c.cfg.Logger.Debug("a voter did not tell its time", "node", node, "err", err)
		}
	}
	offset, _, known = c.Offset(node)
	return offset, known
}

// judge goes by the offsets that are known of so many voters.
func (c *Clocks) judge(offsets []time.Duration, voters int) error {
	switch {
	case c.near(0, offsets) > voters/2:
		return nil
	case c.together(offsets, voters):
		return ErrApart
	}
	return ErrUnsure
}

// together tells whether more than half of so many clocks keep one time: that of one of them, within the bound.
func (c *Clocks) together(offsets []time.Duration, clocks int) bool {
	return slices.ContainsFunc(offsets, func(o time.Duration) bool { return c.near(o, offsets) > clocks/2 })
}

func (c *Clocks) near(to time.Duration, offsets []time.Duration) (n int) {
	for _, o := range offsets {
		if (o - to).Abs() <= c.cfg.MaxOffset {
			n++
		}
	}
	return n
}

// offsets are how far the clocks that are known are ahead of this one, itself included, in order.
func (c *Clocks) offsets(now reading) []time.Duration {
	offsets := []time.Duration{0} // this node's own
	c.mu.Lock()
	for _, h := range c.peers {
		if h.counts() {
			offsets = append(offsets, h.best().ahead-now.lead)
		}
	}
	c.mu.Unlock()
	slices.Sort(offsets)
	return offsets
}

func middle(sorted []time.Duration) time.Duration {
	low, high := sorted[(len(sorted)-1)/2], sorted[len(sorted)/2]
	return low + (high-low)/2
}
