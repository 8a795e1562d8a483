package siege

import (
	"sync"
	"time"

	"github.com/belfryhq/belfry/deploy/local"
)

// death is the end of a node's process that the harness did not bring about directly.
type death struct {
	at   time.Time
	node string
	how  string
}

// deaths watches the cluster's events for deaths.
type deaths struct {
	stop chan struct{}
	done chan struct{}

	mu     sync.Mutex // guards untold
	untold []death    // deaths that take has not returned yet
}

func watchDeaths(cluster *local.Cluster) *deaths {
	d := &deaths{stop: make(chan struct{}), done: make(chan struct{})}
	go d.watch(cluster.Events())
	return d
}

func (d *deaths) watch(events <-chan local.Event) {
	defer close(d.done)
	for {
		select {
		case <-d.stop:
			return
		case e := <-events:
			if e.Kind == local.Died {
				d.note(e)
			}
		}
	}
}

func (d *deaths) note(e local.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.untold = append(d.untold, death{time.Now(), e.Node, e.String()})
}

// take returns each death once.
func (d *deaths) take() []death {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := d.untold
	d.untold = nil
	return taken
}

func (d *deaths) close() {
	close(d.stop)
	<-d.done
}
