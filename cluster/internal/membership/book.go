package membership

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/internal/wait"
	"github.com/belfryhq/belfry/raftgroup/durable"
)

// maxNodes is the greatest number of nodes in the book. A cluster has far fewer.
const maxNodes = 1024

// bookEntry is a node in the book.
type bookEntry struct {
	ID         string `json:"id"`
	Name       string `json:"name,omitempty"`
	Registered string `json:"registered,omitempty"` // host:port in the control group's state
	Reached    string `json:"reached,omitempty"`    // host:port at which a dial last found the node
}

// book is an open address book. Its methods are safe for concurrent use.
type book struct {
	path   string
	logger *slog.Logger
	wake   chan struct{} // capacity 1; filled when the book changes

	mu    sync.Mutex
	nodes map[string]bookEntry // by id
}

// openBook reads the book of a data folder. The book is empty if the file is missing or unreadable; the log reports the
// latter.
func openBook(dir string, logger *slog.Logger) *book {
	b := &book{
		path: filepath.Join(dir, bookFile), logger: logger, wake: make(chan struct{}, 1), nodes: make(map[string]bookEntry),
	}
	nodes, err := readBook(b.path)
	if err != nil {
		logger.Warn("the address book cannot be read: the node begins a new one and needs --join, or other nodes' calls, "+
			"to find the others", "file", b.path, "err", err)
	}
	for _, n := range nodes[:min(len(nodes), maxNodes)] {
		b.nodes[n.ID] = n
	}
	return b
}

// entry returns an entry; false: there is none.
func (b *book) entry(id string) (bookEntry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, ok := b.nodes[id]
	return n, ok
}

// all returns all entries, sorted by id.
func (b *book) all() []bookEntry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Values(b.nodes), func(x, y bookEntry) int { return cmp.Compare(x.ID, y.ID) })
}

// setRegistered sets the nodes of the control group's state, each with its id, name and registered address. It drops
// the entries of other nodes.
func (b *book) setRegistered(nodes []bookEntry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := make(map[string]bookEntry)
	for _, n := range nodes[:min(len(nodes), maxNodes)] {
		n.Reached = b.nodes[n.ID].Reached
		next[n.ID] = n
	}
	if !maps.Equal(next, b.nodes) {
		b.nodes = next
		b.changed()
	}
}

// setReached records that a dial to the address found the node. It removes the address from other nodes' entries.
func (b *book) setReached(id, addr string) {
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
func (b *book) changed() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

const (
	bookFile    = "addresses.json"
	bookVersion = 1
)

// bookContent is the content of the book's file.
type bookContent struct {
	Version int         `json:"version"`
	Nodes   []bookEntry `json:"nodes"` // sorted by id
}

func readBook(path string) ([]bookEntry, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var c bookContent
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, err
	}
	if c.Version != bookVersion {
		return nil, fmt.Errorf("version %d; this build reads %d", c.Version, bookVersion)
	}
	return c.Nodes, nil
}

func (b *book) save() error {
	data, err := json.MarshalIndent(bookContent{Version: bookVersion, Nodes: b.all()}, "", "  ")
	if err != nil {
		return err
	}
	return durable.Replace(b.path, append(data, '\n'), nil)
}

// retryAfter is how long the writer waits after a failed write.
const retryAfter = 5 * time.Second

// run writes the book after each change until the context ends, and then the last changes. It logs the first of several
// failures in a row.
func (b *book) run(ctx context.Context) {
	for failing := false; ; {
		select {
		case <-b.wake:
		case <-ctx.Done():
			b.finish()
			return
		}
		err := b.save()
		if err == nil {
			failing = false
			continue
		}
		if !failing {
			b.logger.Warn("the address book cannot be written; the node goes on and tries again", "file", b.path, "err", err)
		}
		failing = true
		b.changed()
		wait.For(ctx, retryAfter)
	}
}

// finish saves the changes that are not on disk yet.
func (b *book) finish() {
	select {
	case <-b.wake:
		if err := b.save(); err != nil {
			b.logger.Warn("the address book's last changes are not on disk", "file", b.path, "err", err)
		}
	default:
	}
}
