package logcache

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Cache is a raft.LogStore over another one, and a raft.MonotonicLogStore if the other one is.
type Cache struct {
	raft.LogStore
	limit int64

	mu      sync.RWMutex
	entries []*raft.Log // with consecutive indexes, the oldest first
	bytes   int64       // of entries; over limit only with a single entry
	quiet   *time.Timer // fires when the log counts as quiet
}

var _ raft.MonotonicLogStore = (*Cache)(nil)

// entryOverhead is the approximate memory of an entry apart from its data, in bytes.
const entryOverhead = 128

// untilQuiet is the time after a write by which all up-to-date replicas have read it. Later reads concern only the
// newest entry, again and again: before each append, even an empty one, Raft looks at the entry before it.
const untilQuiet = 3 * time.Second

// New returns a cache over store of up to limit bytes. The newest entry stays whatever its size, and alone stays while
// the log is quiet.
func New(store raft.LogStore, limit int64) *Cache {
	c := &Cache{LogStore: store, limit: limit}
	c.quiet = time.AfterFunc(untilQuiet, c.keepNewest)
	return c
}

// IsMonotonic reports whether the store is monotonic.
func (c *Cache) IsMonotonic() bool {
	store, ok := c.LogStore.(raft.MonotonicLogStore)
	return ok && store.IsMonotonic()
}

// GetLog reads an entry from the cache or the store.
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

// find returns the cached entry of an index, or nil.
func (c *Cache) find(index uint64) *raft.Log {
	if len(c.entries) == 0 || index < c.entries[0].Index || index-c.entries[0].Index >= uint64(len(c.entries)) {
		return nil
	}
	return c.entries[index-c.entries[0].Index]
}

// StoreLog writes an entry.
func (c *Cache) StoreLog(entry *raft.Log) error { return c.StoreLogs([]*raft.Log{entry}) }

// StoreLogs writes entries and caches them after success: a leader must not send an entry that it may not have.
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
		c.clear() // e does not follow the last entry: the log was cut in between
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
