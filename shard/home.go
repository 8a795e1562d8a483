package shard

import "sync"

// home is the node that should lead a shard while it is healthy. Its methods are safe for concurrent use.
type home struct {
	mu      sync.Mutex
	node    string        // empty: any
	changed chan struct{} // closed when node changes
}

func newHome(node string) *home { return &home{node: node, changed: make(chan struct{})} }

// watch returns the node, and a channel that is closed when there is another one.
func (h *home) watch() (string, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.node, h.changed
}

func (h *home) set(node string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if node == h.node {
		return
	}
	h.node = node
	close(h.changed)
	h.changed = make(chan struct{})
}

// Prefer sets the node that should lead the shard while it is healthy. A leader on another node gives its leadership to
// that node once the node has been well for a while.
func (s *Shard) Prefer(node string) { s.home.set(node) }
