package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Config describes a local cluster. Only DataDir is required.
type Config struct {
	Nodes int // default 3
	// Founders is the number of the nodes that form the cluster: 1, 3 or 5. The other nodes run, and join it, from their
	// Launch on. 0: all nodes run from the start.
	Founders  int
	DataDir   string    // the cluster's folder; made if it is missing
	HTTPPort  int       // of the first node, the others count up; 0: free ports, chosen once and kept
	Binary    string    // path of belfry; empty: the running program
	Restart   bool      // restart a node that died by itself
	Auth      bool      // calls need a key, also at later starts on DataDir; the first one is in Cluster.KeyFile
	ExtraArgs []string  // further arguments of each node's `belfry serve`
	Places    []Place   // of the first nodes; the others run on loopback
	Out       io.Writer // gets one line for each start and end of a node; nil: discarded

	StartTimeout time.Duration // for a started node to be ready; default 60 s
	Grace        time.Duration // for a node to stop before it is killed; default 10 s
}

const (
	defaultNodes        = 3
	maxNodes            = 50
	defaultStartTimeout = 60 * time.Second
	defaultGrace        = 10 * time.Second
)

func (c Config) withDefaults() (Config, error) {
	if c.Nodes == 0 {
		c.Nodes = defaultNodes
	}
	if c.Out == nil {
		c.Out = io.Discard
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = defaultStartTimeout
	}
	if c.Grace == 0 {
		c.Grace = defaultGrace
	}
	if c.Binary == "" {
		self, err := os.Executable()
		if err != nil {
			return c, fmt.Errorf("finding this program's file: %w", err)
		}
		c.Binary = self
	}
	return c, c.validate()
}

func (c Config) validate() error {
	switch {
	case c.DataDir == "":
		return errors.New("the data folder is not given")
	case c.Nodes < 1 || c.Nodes > maxNodes:
		return fmt.Errorf("%d nodes: 1 to %d can be run", c.Nodes, maxNodes)
	case len(c.Places) > c.Nodes:
		return fmt.Errorf("places for %d nodes of %d", len(c.Places), c.Nodes)
	case c.Founders < 0 || c.Founders > c.Nodes:
		return fmt.Errorf("%d nodes of %d form the cluster", c.Founders, c.Nodes)
	case c.HTTPPort < 0 || c.HTTPPort+c.Nodes-1 > 65535:
		return fmt.Errorf("HTTP port %d: the ports of %d nodes do not fit", c.HTTPPort, c.Nodes)
	}
	return nil
}
