package task

import "github.com/cespare/xxhash/v2"

// Slots is how many slots all ids fall on. It is published and fixed for ever: clients compute it too.
const Slots = 4096

// Slot is where a task lives: xxhash64(namespace, 0 byte, id) modulo Slots, with seed 0.
func Slot(namespace, id string) uint32 {
	namespace = CanonicalNamespace(namespace)
	var short [96]byte // hashing in one go costs a third of what a digest does
	if n := len(namespace) + 1 + len(id); n <= len(short) {
		copy(short[:], namespace)
		copy(short[len(namespace)+1:], id)
		return uint32(xxhash.Sum64(short[:n]) % Slots)
	}
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(namespace) // never fails
	_, _ = d.Write([]byte{0})
	_, _ = d.WriteString(id)
	return uint32(d.Sum64() % Slots)
}

// CanonicalNamespace returns the namespace that an empty one stands for, any other as it is.
func CanonicalNamespace(namespace string) string {
	if namespace == "" {
		return DefaultNamespace
	}
	return namespace
}
