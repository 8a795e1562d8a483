package audit

// copies writes each line to a second place, such as standard output. A place that takes no lines delays no record.
type copies struct {
	cfg    Config
	health *health
	lines  chan []byte
	done   chan struct{}
}

const maxCopies = 1024 // lines that wait for the second place

func newCopies(cfg Config, m *metrics) *copies {
	h := newHealth(cfg, m)
	h.path = "the copy of " + cfg.Path
	return &copies{cfg: cfg, health: h, lines: make(chan []byte, maxCopies), done: make(chan struct{})}
}

// add hands a line over. A line for which there is no room is lost for the second place. c may be nil.
func (c *copies) add(line []byte) {
	if c == nil {
		return
	}
	select {
	case c.lines <- line:
	default:
		c.health.lose()
	}
}

func (c *copies) run() {
	defer close(c.done)
	for line := range c.lines {
		if c.health.during(func() error { _, err := c.cfg.Also.Write(line); return err }) != nil {
			c.health.lose()
		}
	}
}

// close waits until all lines are written. No line may be added any more.
func (c *copies) close() {
	close(c.lines)
	<-c.done
}
