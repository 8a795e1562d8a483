package history

import (
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Slots is the number of slots over which all ids are hashed. The service publishes the number and the hash.
const Slots = 4096

// SlotOf returns the slot of a task in the default namespace.
func SlotOf(id string) uint32 { return SlotIn("", id) }

// SlotIn returns the slot of a task in a namespace, whose shard is the one that owns the slot. Of the id of an
// occurrence, only the part before the @ counts.
func SlotIn(namespace, id string) uint32 {
	id, _, _ = strings.Cut(id, "@")
	if namespace == "" {
		namespace = "default"
	}
	return uint32(xxhash.Sum64String(namespace+"\x00"+id) % Slots)
}
