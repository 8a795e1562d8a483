package check

import "github.com/cespare/xxhash/v2"

// slots is the number of slots over which all ids are hashed. The service publishes the number and the hash (slotOf).
const slots = 4096

func slotOf(id string) uint32 { return uint32(xxhash.Sum64String("default\x00"+id) % slots) }

// learnShards gives tasks without a known shard the shard of another task on the same slot. Answers of batches name no
// shard, for instance. A slot whose tasks were seen on two shards gives none.
func (x *Index) learnShards() {
	var shards [slots]uint32
	var moved [slots]bool
	for _, t := range x.order {
		if t.shard == 0 {
			continue
		}
		slot := slotOf(t.id)
		moved[slot] = moved[slot] || shards[slot] != 0 && shards[slot] != t.shard
		shards[slot] = t.shard
	}
	for _, t := range x.order {
		if slot := slotOf(t.id); t.shard == 0 && !moved[slot] {
			t.shard = shards[slot]
		}
	}
}
