package store

import "slices"

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
