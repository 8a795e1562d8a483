package workload

import (
	"math"
	"time"
)

// quantileOf is the smallest of the sorted values that at least the part q of them does not exceed (nearest rank).
func quantileOf(sorted []time.Duration, q float64) time.Duration {
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
