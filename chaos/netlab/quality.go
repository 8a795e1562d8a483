package netlab

import (
	"fmt"
	"strings"
	"time"
)

// Quality is what happens to packets in one direction between two hosts. Its zero value is a sound cable.
type Quality struct {
	Cut       bool          // nothing gets through, and what is under way is lost
	Delay     time.Duration // of each packet
	Jitter    time.Duration // on top of the delay, evenly up to so much
	Loss      float64       // the share of packets that vanish
	Duplicate float64       // the share that come twice
	Reorder   float64       // the share that later ones overtake; without it packets keep their order, whatever the jitter
}

// with is what happens to packets to which both happen.
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
