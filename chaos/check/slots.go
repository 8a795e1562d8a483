package check

import "github.com/cespare/xxhash/v2"

// slots is how many slots all ids fall on. It is published, as is slotOf.
const slots = 4096

func slotOf(id string) uint32 { return uint32(xxhash.Sum64String("default\x00"+id) % slots) }

// learnShards finds the shards of tasks of which no answer told it (those of batches do not), from others that fell on
// the same slot. A slot that was seen on two shards tells nothing.
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
