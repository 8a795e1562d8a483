package workload

import (
	"math"
	"time"
)

// quantileOf returns the smallest of the sorted values such that a fraction q of them is not larger (nearest rank).
func quantileOf(sorted []time.Duration, q float64) time.Duration {
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
