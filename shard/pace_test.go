package shard

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestPace checks that the bounds of entries follow the disk and the processor, whatever the bounds were before: the
// usual entry of a storm takes about half again as long as a small one, if any entry can.
func TestPace(t *testing.T) {
	for name, test := range map[string]struct {
		fixed, perKB time.Duration // of an entry
		from, to     int           // bounds in bytes
	}{
		"processor bound":   {300 * time.Microsecond, 20 * time.Microsecond, 5 << 10, 8 << 10},
		"slow processor":    {300 * time.Microsecond, time.Millisecond, minPace, minPace + minPace/paceStep},
		"network disk":      {5 * time.Millisecond, 20 * time.Microsecond, 50 << 10, 80 << 10},
		"spinning disk":     {20 * time.Millisecond, 20 * time.Microsecond, maxEntryBytes * 9 / 10, maxEntryBytes},
		"no fixed part":     {0, 20 * time.Microsecond, minPace, 2 * minPace},
		"a disk that hangs": {5 * time.Millisecond, 20 * time.Microsecond, 50 << 10, 80 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			for _, limit := range []int{minPace, firstPace, maxEntryBytes} {
				p, sum, small := pace{limit: limit}, 0, 0
				for i := range 4000 {
					most := p.next()
					p.taken(most)
					took := test.fixed + test.perKB*time.Duration(most.bytes)/1024
					took += time.Duration(random.Int64N(int64(took) / 4))
					if name == "a disk that hangs" && i%10 == 0 {
						took += 100 * time.Millisecond
					}
					if most.bytes == smallEntry {
						small++
					}
					p.learn(most, most.bytes, took)
					if i >= 2000 {
						sum += p.limit
					}
				}
				if mean := sum / 2000; mean < test.from || mean > test.to {
					t.Errorf("from %d bytes on: %d, want %d to %d", limit, mean, test.from, test.to)
				}
				if small < 4000/(paceProbe+2) {
					t.Errorf("%d small entries", small)
				}
			}
		})
	}
}

// TestPaceIgnoresShortEntries checks that entries far below their limits leave the limits as they are.
func TestPaceIgnoresShortEntries(t *testing.T) {
	p := newPace()
	p.learn(p.next(), 100, time.Millisecond)
	for range 100 {
		p.learn(p.next(), p.limit/2-1, time.Second)
	}
	assert.Equal(t, p.limit, firstPace)
}

// TestProbesEnd checks that a small entry follows each paceProbe others, whether it can be timed or not, and however
// large its commands are.
func TestProbesEnd(t *testing.T) {
	for name, price := range map[string]int{"never timed": 0, "large commands": 60 << 10} {
		t.Run(name, func(t *testing.T) {
			p, small := newPace(), 0
			for range 10 * (paceProbe + 1) {
				within := p.next()
				p.taken(within)
				if within.bytes == smallEntry {
					small++
				}
				if price > 0 {
					p.learn(within, price, time.Millisecond)
				}
			}
			assert.Equal(t, small, 10, "small entries")
		})
	}
}
