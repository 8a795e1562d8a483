package siege

import (
	"testing"
	"time"
)

// A node that sends 100 bytes a second for 10 s, with a burst of 300 bytes a second for 2 s among them, and one that
// sends 50 bytes a second for a second.
func TestCopyMeter(t *testing.T) {
	m, began := newCopyMeter(), time.Now()
	bytes := 1000.0 // sent before
	for second := range 21 {
		at := began.Add(time.Duration(second) * time.Second)
		switch {
		case second == 9 || second == 10:
			bytes += 300
		case second > 5 && second <= 15:
			bytes += 100
		}
		m.add("node-1", at, bytes)
		m.add("node-2", at, float64(50*min(max(second-16, 0), 1)))
		m.add("node-3", at, 7)
	}
	for over, want := range map[time.Duration]float64{time.Second: 300, 2 * time.Second: 300, 4 * time.Second: 200} {
		c := m.sum(over)
		if c.Fastest != want || c.Bytes != 1450 || c.Senders != 2 || c.Took != 12*time.Second {
			t.Errorf("over %v: %+v, %v", over, c, c)
		}
	}
}
