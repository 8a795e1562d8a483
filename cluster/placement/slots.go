package placement

import "fmt"

// Range is the slots [First, End).
type Range struct {
	First, End uint32
}

// Split cuts the slots into one contiguous range for each shard. The ranges' sizes differ by at most one slot.
func Split(slots, shards int) ([]Range, error) {
	if shards < 1 || shards > slots {
		return nil, fmt.Errorf("%d shards cannot share %d slots", shards, slots)
	}
	ranges := make([]Range, shards)
	for i := range ranges {
		ranges[i] = Range{First: uint32(i * slots / shards), End: uint32((i + 1) * slots / shards)}
	}
	return ranges, nil
}
