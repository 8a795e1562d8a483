package workload

import (
	"errors"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// Node is where calls can go.
type Node struct {
	Name string
	URL  string // of its HTTP interface
}

// Config describes a load. Nodes, Target and Recorder must be given.
type Config struct {
	Nodes    []Node
	Target   string // the receiver's URL
	Recorder *history.Recorder

	Seed      uint64
	Prefix    string        // of all ids; default "t-"
	Tasks     int           // scripts to play; 0: until the context ends
	PerSecond int           // scripts begun; default 200
	Workers   int           // scripts at once; default 64
	Hot       int           // ids that are called by several workers at once; default 4, negative: none
	MaxDelay  time.Duration // of a task; default 3 s

	Pulled    int           // percent of the scripts' tasks that are pulled, with Consume; default 40, negative: none
	Queue     string        // from which they are pulled; default: Prefix and "pull"
	Consumers int           // of that queue; default 6
	Lease     time.Duration // of a task at most; default 2.8 s

	// The bulk is many plain tasks by batch, each with an id of its own, beside the scripts: see Bulk.
	BulkPerSecond int // tasks; default 1000
	// BulkKept is for how long its finished tasks can be read, to the end of a run at least: 0: as the nodes have it. What
	// is kept for longer is most of what a node reads at its start.
	BulkKept      time.Duration
	BulkLines     int // of a batch, about; default 300
	BulkPushed    int // percent that go to the receiver, in requests of many; the others are pulled. Default 50
	BulkCancelled int // percent that are cancelled, by later batches. Default 5
	BulkConsumers int // default 3

	CallTimeout time.Duration // of one request at most; some get less. Default 2 s
	RetryFor    time.Duration // how long an operation is repeated. Default 10 s
}

func (c Config) withDefaults() (Config, error) {
	if len(c.Nodes) == 0 || c.Target == "" || c.Recorder == nil {
		return c, errors.New("workload: Nodes, Target and Recorder must be given")
	}
	if c.Prefix == "" {
		c.Prefix = "t-"
	}
	setDefault(&c.PerSecond, 200)
	setDefault(&c.Workers, 64)
	setDefault(&c.Hot, 4)
	setDefault(&c.Pulled, 40)
	setDefault(&c.Queue, c.Prefix+"pull")
	setDefault(&c.Consumers, 6)
	setDefault(&c.Lease, 2800*time.Millisecond)
	setDefault(&c.BulkPerSecond, 1000)
	setDefault(&c.BulkLines, 300)
	setDefault(&c.BulkPushed, 50)
	setDefault(&c.BulkCancelled, 5)
	setDefault(&c.BulkConsumers, 3)
	setDefault(&c.MaxDelay, 3*time.Second)
	setDefault(&c.CallTimeout, 2*time.Second)
	setDefault(&c.RetryFor, 10*time.Second)
	return c, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
