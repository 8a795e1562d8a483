package fsm

import (
	"encoding/binary"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// maxInterned bounds a table: a target of its own for each task would turn it into the pointer-laden heap that the
// rest of the package avoids. What finds no place is kept in the task's extra.
const maxInterned = 1 << 14

// interned is a value that many tasks share. It never changes.
type interned[V any] struct {
	key   string
	value V
}

// internTable gives small numbers to equal values. Numbers start at 1, and are given again when nobody uses them.
type internTable[V any] struct {
	numbers map[string]uint32
	entries []*interned[V] // by number; nil: free
	refs    []uint32
	free    []uint32
}

func newInternTable[V any]() *internTable[V] {
	return &internTable[V]{
		numbers: map[string]uint32{},
		entries: make([]*interned[V], 1),
		refs:    make([]uint32, 1),
	}
}

// acquire counts one more use of the value of this key, made by value if it is new. 0: the table is full.
func (t *internTable[V]) acquire(key string, value func() V) uint32 {
	n, ok := t.numbers[key]
	switch {
	case ok:
	case len(t.numbers) >= maxInterned:
		return 0
	case len(t.free) > 0:
		n = t.free[len(t.free)-1]
		t.free = t.free[:len(t.free)-1]
		t.entries[n] = &interned[V]{key, value()}
		t.numbers[key] = n
	default:
		n = uint32(len(t.entries))
		t.entries = append(t.entries, &interned[V]{key, value()})
		t.refs = append(t.refs, 0)
		t.numbers[key] = n
	}
	t.refs[n]++
	return n
}

// release counts one use less; number 0 is none.
func (t *internTable[V]) release(n uint32) {
	if n == 0 {
		return
	}
	if t.refs[n]--; t.refs[n] == 0 {
		delete(t.numbers, t.entries[n].key)
		t.entries[n] = nil
		t.free = append(t.free, n)
	}
}

// target is a shared target with the destination that its lane is named after.
type target struct {
	spec        *fsmpb.Target
	destination string
}

func newTarget(spec *fsmpb.Target) target {
	destination, err := task.Destination(spec.Url)
	if err != nil {
		destination = spec.Url // not accepted by CheckSpec, and yet a lane of its own
	}
	return target{spec, destination}
}

// targetKey is equal for equal targets only.
func targetKey(t *fsmpb.Target) string {
	b := appendSized(make([]byte, 0, len(t.Url)+16), t.Url)
	b = binary.AppendVarint(b, t.TimeoutMs)
	for _, h := range t.Headers {
		b = appendSized(appendSized(b, h.Name), h.Value)
	}
	return string(b)
}
