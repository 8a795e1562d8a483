package cluster

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
)

// aliveFor is how long a node counts as alive after it has answered. Each node asks all others for the time once a
// second.
const aliveFor = 4 * time.Second

// answers is when other nodes last answered this one. Gossip has no part in it: anybody may forge that.
type answers struct {
	mu   sync.Mutex
	last map[string]time.Time // by node id
}

// note records that a node has answered just now, and forgets nodes whose last answer is older than aliveFor.
func (a *answers) note(node string) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil {
		a.last = make(map[string]time.Time)
	}
	maps.DeleteFunc(a.last, func(_ string, at time.Time) bool { return now.Sub(at) > aliveFor })
	a.last[node] = now
}

// recent reports whether a node has answered a short time ago.
func (a *answers) recent(node string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, known := a.last[node]
	return known && time.Since(at) <= aliveFor
}

// isAlive reports whether a node has answered this one a short time ago.
func (n *Node) isAlive(id string) bool { return id == n.ID() || n.answers.recent(id) }

// isCurrent reports whether a state of the control group is the present one. A log that is read again after a restart
// shows old states first. It has come to the present once it has this start of this node.
func (n *Node) isCurrent(state *clusterpb.ControlState) bool {
	return control.Node(state, n.ID()).GetBoot() == n.identity.Boot()
}

// mapNodes returns the ids of the cluster's nodes, this one included: the nodes of the map and, while the map may be an
// old one, the nodes that this node remembers from before its start.
func (n *Node) mapNodes() []string {
	if n.ClusterID() == "" {
		return nil
	}
	var ids []string
	state := n.state()
	for _, node := range state.Nodes {
		ids = append(ids, node.Id)
	}
	if !n.isCurrent(state) {
		for _, node := range n.book.Nodes() {
			ids = append(ids, node.ID)
		}
		if promise, promised := n.identity.Promised(); promised && promise.ClusterID == n.ClusterID() {
			ids = append(ids, promise.Nodes...)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
