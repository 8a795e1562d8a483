package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"time"

	"github.com/belfryhq/belfry/cluster/devclock"
)

// DevConfig returns the settings of a node in dev mode, for tests of programs that use Belfry. The node is a cluster of
// its own, with one shard, on free ports of this machine. It delivers to receivers on this machine, too. Its clock can
// be set ahead by POST /v1/dev/advance and by Advance: see package devclock. The node serves within some tenths of a
// second, and bounds neither the process's memory nor its garbage. The caller removes the folder.
func DevConfig(dataDir string) Config {
	c := DefaultConfig()
	c.DataDir, c.HTTPAddr, c.PeerAddr = dataDir, "127.0.0.1:0", "127.0.0.1:0"
	c.Dev, c.Shards, c.BootstrapExpect = true, 1, 1
	c.WebhookNets = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	c.BrokerNets = c.WebhookNets
	return c
}

// checkDev returns an error for a node in dev mode that is not alone, or that would go on with data: its clock begins
// with the machine's time, and the data may be ahead.
func (c *Config) checkDev() error {
	if !c.Dev {
		return nil
	}
	if len(c.Join) > 0 || c.BootstrapExpect != 1 {
		return errors.New("a node in dev mode joins no others: their clocks would differ")
	}
	switch files, err := os.ReadDir(c.DataDir); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case len(files) > 0:
		return fmt.Errorf("the folder %s is not empty: a node in dev mode begins with an empty one", c.DataDir)
	}
	return nil
}

// startDevClock replaces the node's clock in dev mode.
func (n *Node) startDevClock(context.Context) error {
	if n.cfg.Dev {
		n.dev = devclock.New()
		n.clock = n.dev.Now
	}
	return nil
}

// machineClock returns the clock for times that other machines compare with theirs. It is never set ahead.
func (n *Node) machineClock() func() time.Time {
	if n.cfg.Dev {
		return time.Now
	}
	return n.clock
}

// ErrNotDev is the error of Advance of a node that is not in dev mode.
var ErrNotDev = errors.New("the node is not in dev mode: its clock cannot be set")

// Advance sets the clock of a node in dev mode ahead, as POST /v1/dev/advance does. It returns the clock's new time and
// the number of attempts and leases that have begun meanwhile. All advances together are at most 100 years.
func (n *Node) Advance(ctx context.Context, by time.Duration) (now time.Time, begun uint64, err error) {
	if n.dev == nil {
		return time.Time{}, 0, ErrNotDev
	}
	return n.dev.Advance(ctx, "", by)
}

// Now returns the time by which the node finds tasks due.
func (n *Node) Now() time.Time { return n.clock() }

// readyLook is the period at which AwaitReady looks.
const readyLook = 2 * time.Millisecond

// AwaitReady waits until the node takes calls: see GET /readyz. The error is the context's.
func (n *Node) AwaitReady(ctx context.Context) error {
	tick := time.NewTicker(readyLook)
	defer tick.Stop()
	for {
		err := n.cluster.Ready()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case err := <-n.failed:
			n.failed <- err // for Wait
			return err
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}
