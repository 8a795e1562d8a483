package demo

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// Config sets the size of the demo. Only Out is required.
type Config struct {
	Tasks   int           // default 5000
	Spread  time.Duration // between the first and the last due task; default 20 s
	DataDir string        // of the nodes; empty: a temporary folder, removed at the end
	Binary  string        // path of belfry; empty: the running program
	Stay    bool          // keep the cluster after the verdict, until the context ends
	Live    bool          // Out is a terminal: redraw one line of progress
	Out     io.Writer
}

const (
	nodes         = 3
	defaultTasks  = 5000
	maxTasks      = 1_000_000
	defaultSpread = 20 * time.Second
)

func (c Config) withDefaults() (Config, error) {
	if c.Tasks == 0 {
		c.Tasks = defaultTasks
	}
	if c.Spread == 0 {
		c.Spread = defaultSpread
	}
	switch {
	case c.Out == nil:
		return c, errors.New("demo: no output")
	case c.Tasks < 1 || c.Tasks > maxTasks:
		return c, fmt.Errorf("demo: %d tasks: 1 to %d can be scheduled", c.Tasks, maxTasks)
	case c.Spread < time.Second:
		return c, fmt.Errorf("demo: the spread of %v leaves no time to kill a node in", c.Spread)
	}
	return c, nil
}
