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
		m.add("node-1", copyLook{at, at, bytes})
		m.add("node-2", copyLook{at, at, float64(50 * min(max(second-16, 0), 1))})
		m.add("node-3", copyLook{at, at, 7})
	}
	for rate, want := range map[float64]float64{50: 2*250 + 8*50, 100: 2 * 200, 250: 2 * 50, 300: 0} {
		c := m.sum(rate)
		if c.Excess != want || c.Bytes != 1450 || c.Senders != 2 || c.Took != 12*time.Second {
			t.Errorf("beside %v bytes a second: %+v, %v", rate, c, c)
		}
	}
}

// A node whose answers take up to two seconds may have read its counter at any instant of them.
func TestSlowLooksProveNoExcess(t *testing.T) {
	at := func(seconds float64) time.Time { return time.Unix(0, int64(seconds*1e9)) }
	looks := []copyLook{{at(0), at(2), 0}, {at(2), at(2.5), 250}, {at(3), at(5), 300}}
	if over := excess(looks, 100); over != 0 {
		t.Errorf("%v bytes beyond the rate", over)
	}
	if over := excess(looks, 80); over != 250-2.5*80 {
		t.Errorf("%v bytes beyond the rate", over)
	}
}
