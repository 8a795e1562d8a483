package history

import "github.com/cespare/xxhash/v2"

// Slots is the number of slots over which all ids are hashed. The service publishes the number and the hash.
const Slots = 4096

// SlotOf returns the slot of a task, whose shard is the one that owns the slot.
func SlotOf(id string) uint32 { return uint32(xxhash.Sum64String("default\x00"+id) % Slots) }
