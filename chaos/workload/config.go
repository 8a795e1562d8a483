package workload

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// Node is a node that takes calls.
type Node struct {
	Name string
	URL  string // of its HTTP interface
	// KeyFile is the file with the API key of calls, which may change; empty: they need none.
	KeyFile string
}

// Config describes a load. Nodes, Target and Recorder are required.
type Config struct {
	Nodes    []Node
	Spare    func() []string // names of the nodes that are not in the cluster now; nil: all are
	Target   string          // the receiver's URL
	Recorder *history.Recorder

	Seed      uint64
	Namespace string        // of all calls; default the default one
	Prefix    string        // of all ids; default "t-"
	Tasks     int           // scripts to play; 0: until stop is closed or the context ends
	PerSecond int           // scripts begun a second; default 200
	Workers   int           // scripts at once; default 64
	Hot       int           // ids that several workers use at once; default 4, negative: none
	MaxDelay  time.Duration // longest delay of a task; default 3 s

	// Plain makes the load even: each script schedules one task, which the receiver takes at once, and the batches of
	// the bulk are small. Many consumers share its tasks, so a refused call of one of them delays no task. Only such a
	// load tells the lateness that a cluster adds. Others have bursts, and receivers and consumers that hold tasks back.
	Plain bool

	Pulled    int           // percent of the scripts' tasks that consumers pull; default 40, negative: none
	Queue     string        // queue of the pulled tasks; default: Prefix and "pull"
	Consumers int           // consumers of that queue; default 6
	Lease     time.Duration // longest lease of a task; default 2.8 s

	// The bulk is many plain tasks by batch beside the scripts, each with an id of its own. See Load.Bulk.
	BulkPerSecond int // tasks a second; default 1000
	// BulkKept is how long finished tasks of the bulk can be read: to the end of a run at least. 0 leaves that to the
	// nodes. A node that starts reads mostly finished tasks if they are kept for longer.
	BulkKept      time.Duration
	BulkLines     int // average tasks of a batch; default 300
	BulkPushed    int // percent pushed to the receiver, many in a request; the others are pulled. Default 50
	BulkCancelled int // percent cancelled by later batches. Default 5
	BulkConsumers int // consumers of pulled bulk tasks. Default 3, of a plain load 24

	// Schedules is the number of schedules that Repeat makes. Default 5, of a plain load none; negative: none.
	Schedules int

	// Groups is the number of groups that keep their order, for which Order makes a queue. Default 0: no script uses them.
	Groups int

	Kept time.Duration // how long finished tasks of scripts can be read, for Keep

	// ForgerKey is a file with a key for a consumer of ForgerQueue alone, for Forge; empty: calls need none.
	ForgerKey string

	// Dial opens the connections to nodes; nil: those of the machine's network.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	CallTimeout time.Duration // longest timeout of a request; some get less. Default 2 s
	RetryFor    time.Duration // how long an operation is repeated. Default 10 s
}

func (c Config) withDefaults() (Config, error) {
	if len(c.Nodes) == 0 || c.Target == "" || c.Recorder == nil {
		return c, errors.New("workload: Nodes, Target and Recorder must be given")
	}
	if c.Prefix == "" {
		c.Prefix = "t-"
	}
	if c.Plain {
		c.Hot, c.Pulled, c.Groups = -1, -1, 0
		setDefault(&c.Schedules, -1)
		setDefault(&c.BulkLines, 20)
		setDefault(&c.BulkConsumers, 24)
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
	setDefault(&c.Schedules, 5)
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
