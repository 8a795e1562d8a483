package siege

import (
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/deploy/local"
)

// death is the end of a node's process that no hand of ours brought about directly.
type death struct {
	at   time.Time
	node string
	how  string
}

// deaths watches for them.
type deaths struct {
	stop chan struct{}
	done chan struct{}

	mu  sync.Mutex // guards all
	all []death
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
	d.all = append(d.all, death{time.Now(), e.Node, e.String()})
}

// since are the deaths from an instant on.
func (d *deaths) since(t time.Time) []death {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.all), func(one death) bool { return one.at.Before(t) })
}

func (d *deaths) close() {
	close(d.stop)
	<-d.done
}
