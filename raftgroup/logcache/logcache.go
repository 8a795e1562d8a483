package logcache

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Cache is a raft.LogStore over another one, and a raft.MonotonicLogStore if that is one.
type Cache struct {
	raft.LogStore
	limit int64

	mu      sync.RWMutex
	entries []*raft.Log // with neighbouring indexes, the oldest first
	bytes   int64       // of entries; over limit only if there is but one
	quiet   *time.Timer // until the log counts as quiet
}

var _ raft.MonotonicLogStore = (*Cache)(nil)

// entryOverhead is about what an entry takes beside its data.
const entryOverhead = 128

// untilQuiet is how long after a write all replicas that are not behind have read it. From then on only the newest
// entry is read, again and again: each append, an empty one too, is preceded by a look at the entry before it.
const untilQuiet = 3 * time.Second

// New returns a cache over store that holds up to limit bytes. The newest entry is kept however large it is, and alone
// while no entry is written.
func New(store raft.LogStore, limit int64) *Cache {
	c := &Cache{LogStore: store, limit: limit}
	c.quiet = time.AfterFunc(untilQuiet, c.keepNewest)
	return c
}

// IsMonotonic is the store's.
func (c *Cache) IsMonotonic() bool {
	store, ok := c.LogStore.(raft.MonotonicLogStore)
	return ok && store.IsMonotonic()
}

// GetLog reads an entry.
func (c *Cache) GetLog(index uint64, entry *raft.Log) error {
	c.mu.RLock()
	found := c.find(index)
	c.mu.RUnlock()
	if found == nil {
		return c.LogStore.GetLog(index, entry)
	}
	*entry = *found
	return nil
}

// find returns the entry of an index, nil if it is not here.
func (c *Cache) find(index uint64) *raft.Log {
	if len(c.entries) == 0 || index < c.entries[0].Index || index-c.entries[0].Index >= uint64(len(c.entries)) {
		return nil
	}
	return c.entries[index-c.entries[0].Index]
}

// StoreLog writes an entry.
func (c *Cache) StoreLog(entry *raft.Log) error { return c.StoreLogs([]*raft.Log{entry}) }

// StoreLogs writes entries, and keeps them if that has succeeded: a leader must not send an entry that it may not have.
func (c *Cache) StoreLogs(entries []*raft.Log) error {
	if err := c.LogStore.StoreLogs(entries); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range entries {
		c.add(e)
	}
	c.quiet.Reset(untilQuiet)
	return nil
}

func (c *Cache) keepNewest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.entries); n > 1 {
		newest := c.entries[n-1]
		c.entries, c.bytes = []*raft.Log{newest}, bytesOf(newest)
	}
}

func (c *Cache) add(e *raft.Log) {
	if n := len(c.entries); n > 0 && c.entries[n-1].Index+1 != e.Index {
		c.clear() // it does not follow: the log was cut in between
	}
	c.entries = append(c.entries, e)
	c.bytes += bytesOf(e)
	drop := 0
	for ; c.bytes > c.limit && drop < len(c.entries)-1; drop++ {
		c.bytes -= bytesOf(c.entries[drop])
	}
	if drop > 0 {
		n := copy(c.entries, c.entries[drop:])
		clear(c.entries[n:])
		c.entries = c.entries[:n]
	}
}

// DeleteRange deletes entries from the store and empties the cache.
func (c *Cache) DeleteRange(first, last uint64) error {
	c.mu.Lock()
	c.clear()
	c.mu.Unlock()
	return c.LogStore.DeleteRange(first, last)
}

func (c *Cache) clear() { c.entries, c.bytes = nil, 0 }

func bytesOf(e *raft.Log) int64 { return int64(len(e.Data)+len(e.Extensions)) + entryOverhead }
