package addressbook

import (
	"cmp"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
)

// maxNodes is the greatest number of nodes in the book. A cluster has far fewer.
const maxNodes = 1024

// Node is an entry of the book.
type Node struct {
	ID         string `json:"id"`
	Name       string `json:"name,omitempty"`
	Registered string `json:"registered,omitempty"` // host:port in the control group's state
	Reached    string `json:"reached,omitempty"`    // host:port at which a dial last found the node
}

// Book is an open address book. Its methods are safe for concurrent use.
type Book struct {
	path   string
	logger *slog.Logger
	wake   chan struct{} // capacity 1; filled when the book changes

	mu    sync.Mutex
	nodes map[string]Node // by id
}

// Open reads the book of a data folder. The book is empty if the file is missing or unreadable; the log reports the
// latter.
func Open(dir string, logger *slog.Logger) *Book {
	b := &Book{
		path: filepath.Join(dir, fileName), logger: logger, wake: make(chan struct{}, 1), nodes: make(map[string]Node),
	}
	nodes, err := read(b.path)
	if err != nil {
		logger.Warn("the address book cannot be read: the node begins a new one and needs --join, or other nodes' calls, "+
			"to find the others", "file", b.path, "err", err)
	}
	for _, n := range nodes[:min(len(nodes), maxNodes)] {
		b.nodes[n.ID] = n
	}
	return b
}

// Node returns an entry; false: there is none.
func (b *Book) Node(id string) (Node, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, ok := b.nodes[id]
	return n, ok
}

// Nodes returns all entries, sorted by id.
func (b *Book) Nodes() []Node {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Values(b.nodes), func(x, y Node) int { return cmp.Compare(x.ID, y.ID) })
}

// SetRegistered sets the nodes of the control group's state, each with its id, name and registered address. It drops
// the entries of other nodes.
func (b *Book) SetRegistered(nodes []Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := make(map[string]Node)
	for _, n := range nodes[:min(len(nodes), maxNodes)] {
		n.Reached = b.nodes[n.ID].Reached
		next[n.ID] = n
	}
	if !maps.Equal(next, b.nodes) {
		b.nodes = next
		b.changed()
	}
}

// SetReached records that a dial to the address found the node. It removes the address from other nodes' entries.
func (b *Book) SetReached(id, addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, known := b.nodes[id]
	if n.Reached == addr || !known && len(b.nodes) >= maxNodes {
		return
	}
	for other, o := range b.nodes {
		if o.Reached == addr {
			o.Reached = ""
			b.nodes[other] = o
		}
	}
	n.ID, n.Reached = id, addr
	b.nodes[id] = n
	b.changed()
}

// changed wakes the writer. The caller holds the lock.
func (b *Book) changed() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}
