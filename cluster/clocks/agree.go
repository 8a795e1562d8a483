package clocks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belfryhq/belfry/shard"
)

// ErrUnsure is the error of Agrees if the clocks of too few voters are known, or if the clocks disagree with each
// other.
var ErrUnsure = errors.New("no majority is known to keep one time")

// pingPatience is how long a voter has to answer. A slower answer would be too imprecise.
const pingPatience = 200 * time.Millisecond

// Agrees measures the voters' clocks anew. It returns nil as soon as the clocks of a majority are within the bound of
// this node's, which counts if it is a voter. So a silent voter delays nothing. A voter that does not answer within
// pingPatience counts with its last known offset, if that is fresh. The error wraps shard.ErrClockApart if a majority
// of the voters keep another time, and ErrUnsure otherwise.
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

// judge decides by the known offsets; voters is the number of all voters.
func (c *Clocks) judge(offsets []time.Duration, voters int) error {
	switch {
	case c.near(0, offsets) > voters/2:
		return nil
	case c.together(offsets, voters):
		return shard.ErrClockApart
	}
	return ErrUnsure
}

// together reports whether more than half of the clocks are within the bound of one of them. clocks is the number of
// all clocks; offsets may hold fewer.
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

// offsets returns by how much each known clock is ahead of this node's, which is included, sorted.
func (c *Clocks) offsets(now reading) []time.Duration {
	offsets := []time.Duration{0} // this node's
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
