package segment

import "github.com/cespare/xxhash/v2"

const (
	filterBits   = 16 // for each key
	filterHashes = 8
)

// Key is the hash of a namespace or of a task.
type Key uint64

// NamespaceKey returns the key of a namespace.
func NamespaceKey(namespace string) Key { return Key(xxhash.Sum64String(namespace)) }

// TaskKey returns the key of a task. Names hold no zero byte.
func TaskKey(namespace, task string) Key {
	var room [128]byte
	name := append(append(append(room[:0], namespace...), 0), task...)
	return Key(xxhash.Sum64(name))
}

// newFilter returns a Bloom filter of the keys.
func newFilter(keys []Key) []byte {
	filter := make([]byte, (len(keys)*filterBits+7)/8)
	for _, key := range keys {
		key.visit(len(filter), func(at, bit uint32) bool {
			filter[at] |= 1 << bit
			return true
		})
	}
	return filter
}

// In reports whether the filter may contain the key. False is certain.
func (k Key) In(filter []byte) bool {
	found := len(filter) > 0
	k.visit(len(filter), func(at, bit uint32) bool {
		found = filter[at]>>bit&1 == 1
		return found
	})
	return found
}

// visit calls f with the bits of the key in a filter of some length, until f returns false. The hashes are combined as
// in Kirsch and Mitzenmacher, "Less Hashing, Same Performance" (2006).
func (k Key) visit(length int, f func(at, bit uint32) bool) {
	if length == 0 {
		return
	}
	hash, step := uint32(k), uint32(k>>32)|1
	for range filterHashes {
		bit := uint32(uint64(hash) * uint64(length*8) >> 32)
		if !f(bit/8, bit%8) {
			return
		}
		hash += step
	}
}
