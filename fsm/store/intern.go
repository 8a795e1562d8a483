package store

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
	uses  uint32
}

// internTable keeps shared values by number. Number 0 is none.
type internTable[V any] struct {
	numbered[string, interned[V]]
}

func newInternTable[V any]() internTable[V] {
	return internTable[V]{newNumbered[string, interned[V]](nil)}
}

// acquire counts one more use of the value of this key, made by value if it is new. 0: the table is full.
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

// release counts one use less; number 0 is none.
func (t *internTable[V]) release(n uint32) {
	if n == 0 {
		return
	}
	v := t.at(n)
	if v.uses--; v.uses == 0 {
		t.remove(v.key)
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
