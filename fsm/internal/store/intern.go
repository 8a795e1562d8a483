package store

import (
	"encoding/binary"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// numbered assigns small numbers to named values, for records to keep in place of pointers. A number is free again
// when its value is removed. newNumbered assigns the number 0, which is never freed.
type numbered[K comparable, V any] struct {
	numbers map[K]uint32
	values  []*V // by number; nil: free
	free    []uint32
}

// newNumbered returns a table in which zeroth has the number 0. zeroth may be nil.
func newNumbered[K comparable, V any](zeroth *V) numbered[K, V] {
	return numbered[K, V]{numbers: map[K]uint32{}, values: []*V{zeroth}}
}

// Find returns the value of a key, or nil if there is none.
func (t *numbered[K, V]) Find(key K) *V {
	if n, ok := t.numbers[key]; ok {
		return t.values[n]
	}
	return nil
}

func (t *numbered[K, V]) at(n uint32) *V { return t.values[n] }

// add stores the value of a new key and returns its number.
func (t *numbered[K, V]) add(key K, v *V) uint32 {
	n := uint32(len(t.values))
	if k := len(t.free); k > 0 {
		n, t.free = t.free[k-1], t.free[:k-1]
		t.values[n] = v
	} else {
		t.values = append(t.values, v)
	}
	t.numbers[key] = n
	return n
}

func (t *numbered[K, V]) remove(key K) {
	n := t.numbers[key]
	delete(t.numbers, key)
	t.values[n] = nil
	t.free = append(t.free, n)
}

// copyForReading returns a table with the same values and numbers, which a snapshot reads while this table changes.
func (t *numbered[K, V]) copyForReading() numbered[K, V] {
	return numbered[K, V]{values: slices.Clone(t.values)}
}

// maxInterned bounds the number of values in a table. A different target for each task would otherwise fill the heap
// with pointers, which the rest of the package avoids. A value that finds no place is kept in the task's extra.
const maxInterned = 1 << 14

// interned is an immutable value that many tasks share.
type interned[V any] struct {
	key   string
	value V
	uses  uint32
}

// internTable keeps shared values by number. Number 0 means no value.
type internTable[V any] struct {
	numbered[string, interned[V]]
}

func newInternTable[V any]() internTable[V] {
	return internTable[V]{newNumbered[string, interned[V]](nil)}
}

// acquire counts one more use of the value with this key and returns its number. It makes a new value by calling
// value. It returns 0 if the table is full.
func (t *internTable[V]) acquire(key string, value func() V) uint32 {
	n, ok := t.numbers[key]
	if !ok {
		if len(t.numbers) >= maxInterned {
			return 0
		}
		n = t.add(key, &interned[V]{key: key, value: value()})
	}
	t.at(n).uses++
	return n
}

// release counts one use less, and removes a value without uses. Number 0 is ignored.
func (t *internTable[V]) release(n uint32) {
	if n == 0 {
		return
	}
	v := t.at(n)
	if v.uses--; v.uses == 0 {
		t.remove(v.key)
	}
}

// target is a shared target with the destination that names its lane, and the path that may have a lane of its own.
type target struct {
	spec              *fsmpb.Target
	destination, path string
}

func newTarget(spec *fsmpb.Target) target {
	destination, path, err := task.DestinationAndPath(spec.Url)
	if err != nil {
		destination = spec.Url // CheckSpec accepts no such URL; give it a lane of its own all the same
	}
	return target{spec, destination, path}
}

// targetKey returns a key that is equal for equal targets only.
func targetKey(t *fsmpb.Target) string {
	b := appendSized(make([]byte, 0, len(t.Url)+16), t.Url)
	b = binary.AppendVarint(appendSized(b, t.Method), t.TimeoutMs)
	for _, h := range t.Headers {
		b = appendSized(appendSized(b, h.Name), h.Value)
	}
	if t.Auth != nil { // behind a name that no header has
		b = append(appendSized(b, ""), mustMarshal(t.Auth)...)
	}
	return string(b)
}
