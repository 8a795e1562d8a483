package install

import (
	"io"
	"sync"
	"time"
)

// Arriving tells how much of a leader's snapshot has arrived. The zero value means that none arrives.
type Arriving struct {
	Size     int64   // bytes of the whole snapshot
	Received int64   // bytes so far
	Rate     float64 // bytes a second, over the last seconds
}

// Arriving describes the snapshot that arrives now.
func (g *Gate) Arriving() Arriving { return g.arriving.now(time.Now()) }

// meterSpan is the number of whole seconds over which a rate is measured.
const meterSpan = 5

// meter counts the bytes of an arriving snapshot.
type meter struct {
	mu             sync.Mutex
	size, received int64
	began          int64                // Unix second of the first byte
	seconds        [meterSpan + 1]int64 // bytes of the last seconds, by Unix second modulo the length
	last           int64                // newest second in seconds
}

// watch begins to count a snapshot, and returns its reader.
func (m *meter) watch(r io.Reader, size int64) io.Reader {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now().Unix()
	m.size, m.received, m.began, m.last, m.seconds = size, 0, now, now, [meterSpan + 1]int64{}
	return &metered{r, m}
}

// metered counts the bytes of a reader.
type metered struct {
	io.Reader
	meter *meter
}

func (r *metered) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.meter.add(int64(n), err != nil, time.Now())
	return n, err
}

// add counts bytes. The snapshot arrives no more after its end.
func (m *meter) add(n int64, ends bool, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forward(at.Unix())
	m.received += n
	m.seconds[at.Unix()%int64(len(m.seconds))] += n
	if ends {
		m.size, m.received = 0, 0
	}
}

// forward empties the seconds since the newest one.
func (m *meter) forward(second int64) {
	for ; m.last < second && second-m.last <= int64(len(m.seconds)); m.last++ {
		m.seconds[(m.last+1)%int64(len(m.seconds))] = 0
	}
	if m.last < second {
		m.seconds, m.last = [meterSpan + 1]int64{}, second
	}
}

// now returns the count. The present second is not whole, so it counts for the rate only while there is no other.
func (m *meter) now(at time.Time) Arriving {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.size == 0 {
		return Arriving{}
	}
	m.forward(at.Unix())
	sum, span := int64(0), min(at.Unix()-m.began, meterSpan)
	for i := range span {
		sum += m.seconds[(at.Unix()-1-i)%int64(len(m.seconds))]
	}
	if span == 0 {
		sum, span = m.received, 1
	}
	return Arriving{Size: m.size, Received: m.received, Rate: float64(sum) / float64(span)}
}
