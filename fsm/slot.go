package fsm

import "github.com/cespare/xxhash/v2"

// Slots is how many slots all ids fall on. It is published and fixed for ever: clients compute it too.
const Slots = 4096

// Slot is where a task lives: xxhash64(namespace, 0 byte, id) modulo Slots, with seed 0.
func Slot(namespace, id string) uint32 {
	if namespace == "" {
		namespace = DefaultNamespace
	}
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(namespace) // never fails
	_, _ = d.Write([]byte{0})
	_, _ = d.WriteString(id)
	return uint32(d.Sum64() % Slots)
}
