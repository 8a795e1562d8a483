package netlab

import (
	"fmt"
	"strings"
	"time"
)

// Quality describes the treatment of packets in one direction between two hosts. Its zero value is a sound cable.
type Quality struct {
	Cut       bool          // no packet gets through, and packets under way are lost
	Delay     time.Duration // of each packet
	Jitter    time.Duration // evenly distributed addition to the delay, at most this long
	Loss      float64       // share of packets that are lost
	Duplicate float64       // share of packets that arrive twice
	Reorder   float64       // share that later packets overtake; the others keep their order, whatever the jitter
}

// with returns the quality of a direction that has both q and p.
func (q Quality) with(p Quality) Quality {
	either := func(a, b float64) float64 { return 1 - (1-a)*(1-b) }
	return Quality{
		Cut: q.Cut || p.Cut, Delay: q.Delay + p.Delay, Jitter: q.Jitter + p.Jitter,
		Loss: either(q.Loss, p.Loss), Duplicate: either(q.Duplicate, p.Duplicate), Reorder: either(q.Reorder, p.Reorder),
	}
}

func (q Quality) String() string {
	if q.Cut {
		return "cut"
	}
	var parts []string
	if q.Delay > 0 {
		parts = append(parts, fmt.Sprintf("delay %v", q.Delay))
	}
	if q.Jitter > 0 {
		parts = append(parts, fmt.Sprintf("jitter %v", q.Jitter))
	}
	for _, share := range []struct {
		name  string
		value float64
	}{{"loss", q.Loss}, {"duplicates", q.Duplicate}, {"reordered", q.Reorder}} {
		if share.value > 0 {
			parts = append(parts, fmt.Sprintf("%s %.3g%%", share.name, 100*share.value))
		}
	}
	if len(parts) == 0 {
		return "sound"
	}
	return strings.Join(parts, ", ")
}
