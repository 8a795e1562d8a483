package health

import (
	"maps"
	"sync"
	"time"
)

// aliveFor is how long a node counts as alive after it has answered. Each node asks all others for the time once a
// second.
const aliveFor = 4 * time.Second

// rememberFor is how long the last answer of a silent node is remembered.
const rememberFor = 31 * 24 * time.Hour

// answers holds the times at which other nodes last answered this one.
type answers struct {
	mu   sync.Mutex
	last map[string]time.Time // by node id
}

// note records that a node has answered just now, and forgets nodes whose last answer is older than
// rememberFor.
func (a *answers) note(node string) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil {
		a.last = make(map[string]time.Time)
	}
	maps.DeleteFunc(a.last, func(_ string, at time.Time) bool { return now.Sub(at) > rememberFor })
	a.last[node] = now
}

// silence returns the time since a node has last answered.
func (a *answers) silence(node string) (_ time.Duration, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, known := a.last[node]
	return time.Since(at), known
}

// recent reports whether a node has answered within aliveFor.
func (a *answers) recent(node string) bool {
	silence, known := a.silence(node)
	return known && silence <= aliveFor
}
