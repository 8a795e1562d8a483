package webhook

import (
	"container/list"
	"context"
	"sync"
)

// Fences remembers the highest fence seen for each task. Receivers with several processes share one, for example in
// their database, as one conditional update.
type Fences interface {
	// Raise remembers a fence of a task, and reports whether no higher one was seen before. Calls about one task must take
	// effect one after the other. An equal fence is the same attempt again, and is current.
	Raise(ctx context.Context, task string, fence uint64) (current bool, err error)
}

// MemoryFences is a Fences in the memory of one process. It forgets the tasks that were seen longest ago, and does not
// recognise a late sender of a forgotten task.
type MemoryFences struct {
	capacity int

	mu     sync.Mutex
	byTask map[string]*list.Element
	order  list.List // of *seen, the latest first
}

type seen struct {
	task  string
	fence uint64
}

// NewMemoryFences returns a MemoryFences that remembers up to capacity tasks. A capacity below 1 counts as 1.
func NewMemoryFences(capacity int) *MemoryFences {
	return &MemoryFences{capacity: max(capacity, 1), byTask: make(map[string]*list.Element)}
}

// Raise implements Fences. It never returns an error.
func (f *MemoryFences) Raise(_ context.Context, task string, fence uint64) (current bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.byTask[task]
	if at == nil {
		f.byTask[task] = f.order.PushFront(&seen{task, fence})
		f.trim()
		return true, nil
	}
	f.order.MoveToFront(at)
	known := at.Value.(*seen)
	if fence < known.fence {
		return false, nil
	}
	known.fence = fence
	return true, nil
}

// trim forgets the oldest tasks beyond the capacity. The caller holds the lock.
func (f *MemoryFences) trim() {
	for f.order.Len() > f.capacity {
		oldest := f.order.Back()
		delete(f.byTask, oldest.Value.(*seen).task)
		f.order.Remove(oldest)
	}
}
