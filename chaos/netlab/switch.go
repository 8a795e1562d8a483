package netlab

import (
	"container/heap"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// mac is an Ethernet address.
type mac [6]byte

// hostMAC returns the address of the i-th host for its peers. It is a locally administered address.
func hostMAC(i int) mac { return mac{0x02, 0xbe, 0x1f, 0, byte(i >> 8), byte(i)} }

// hostOf returns the number of the host with that address; -1: none.
func hostOf(m mac, hosts int) int {
	i := int(m[4])<<8 | int(m[5])
	if i >= hosts || m != hostMAC(i) {
		return -1
	}
	return i
}

// fabric connects the ports of the hosts. It forwards frames by destination. Each host knows the addresses of all
// others beforehand, so that the fabric need not learn addresses or flood frames.
type fabric struct {
	ports []io.ReadWriter // a read takes one frame, a write gives one frame
	lines [][]*line       // from, to; nil from a host to itself
	run   sync.WaitGroup
}

func newFabric(ports []io.ReadWriter, seed uint64) *fabric {
	f := &fabric{ports: ports, lines: make([][]*line, len(ports))}
	for from := range ports {
		f.lines[from] = make([]*line, len(ports))
		for to := range ports {
			if from != to {
				f.lines[from][to] = newLine(ports[to], rand.New(rand.NewPCG(seed, uint64(from)<<32|uint64(to))))
			}
		}
	}
	return f
}

// start forwards frames until the ports end.
func (f *fabric) start() {
	for from := range f.ports {
		f.run.Go(func() { f.serve(from) })
	}
}

const maxFrame = 1 << 16

func (f *fabric) serve(from int) {
	frame := make([]byte, maxFrame)
	for {
		n, err := f.ports[from].Read(frame)
		if err != nil {
			return
		}
		f.forward(from, frame[:n])
	}
}

func (f *fabric) forward(from int, frame []byte) {
	if len(frame) < len(mac{}) {
		return
	}
	to := hostOf(mac(frame[:len(mac{})]), len(f.ports))
	if to < 0 || to == from {
		return // no host needs frames to all or to unknown addresses
	}
	f.lines[from][to].forward(frame)
}

func (f *fabric) heal() {
	for _, lines := range f.lines {
		for _, l := range lines {
			if l != nil {
				l.heal()
			}
		}
	}
}

// tally counts the frames of one direction by their fate.
type tally struct {
	Forwarded  int64 // written at the other end, with copies
	Lost       int64 // cut off, lost by chance, or dropped because the queue was full
	Duplicated int64
	Reordered  int64
}

const (
	// maxQueued bounds the bytes under way in one direction, like a router's memory. Frames beyond it are lost.
	maxQueued = 16 << 20
	// A frame that others may overtake is held back for a time between these two, and keeps no order.
	minHeldBack, maxHeldBack = time.Millisecond, 20 * time.Millisecond
)

// line is one direction between two hosts.
type line struct {
	to io.Writer

	mu      sync.Mutex // guards the fields below, and keeps writes in order
	rand    *rand.Rand
	imposed []*Quality
	quality Quality // sum of all imposed qualities
	queue   queue
	queued  int       // bytes in the queue
	last    time.Time // largest due time of the frames that keep their order; it never decreases, except at a cut
	count   uint64    // number of frames queued so far
	timer   *time.Timer
	stats   tally
}

func newLine(to io.Writer, rng *rand.Rand) *line {
	return &line{to: to, rand: rng}
}

// impose adds q to the quality of later frames until lift is called. Frames under way arrive as before, unless the line
// is cut.
func (l *line) impose(q Quality) (lift func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.imposed = append(l.imposed, &q)
	l.change()
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.imposed = slices.DeleteFunc(l.imposed, func(other *Quality) bool { return other == &q })
		l.change()
	}
}

// heal lifts all imposed qualities.
func (l *line) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.imposed = nil
	l.change()
}

func (l *line) change() {
	l.quality = Quality{}
	for _, q := range l.imposed {
		l.quality = l.quality.with(*q)
	}
	if l.quality.Cut {
		l.stats.Lost += int64(len(l.queue))
		l.queue, l.queued, l.last = nil, 0, time.Time{}
	}
}

func (l *line) now() Quality {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.quality
}

func (l *line) counts() tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// forward takes a frame. The caller may overwrite the frame afterwards.
func (l *line) forward(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.quality.Cut || l.chance(l.quality.Loss) {
		l.stats.Lost++
		return
	}
	l.pass(frame)
	if l.chance(l.quality.Duplicate) {
		l.stats.Duplicated++
		l.pass(frame)
	}
}

func (l *line) pass(frame []byte) {
	now := time.Now()
	due := now.Add(l.quality.Delay + l.upTo(l.quality.Jitter))
	if l.chance(l.quality.Reorder) {
		l.stats.Reordered++
		l.hold(frame, due.Add(minHeldBack+l.upTo(maxHeldBack-minHeldBack)))
		return
	}
	if due.Before(l.last) {
		due = l.last
	}
	l.last = due
	l.release(now)
	if due.After(now) {
		l.hold(frame, due)
		return
	}
	l.write(frame)
}

func (l *line) chance(share float64) bool { return share > 0 && l.rand.Float64() < share }

func (l *line) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(l.rand.Int64N(int64(d) + 1))
}

func (l *line) hold(frame []byte, due time.Time) {
	if l.queued+len(frame) > maxQueued {
		l.stats.Lost++
		return
	}
	l.count++
	l.queued += len(frame)
	heap.Push(&l.queue, held{due: due, number: l.count, frame: append([]byte(nil), frame...)})
	l.arm()
}

// arm sets the timer to the due time of the first frame. The timer may go off too early, but never too late.
func (l *line) arm() {
	if len(l.queue) == 0 {
		return
	}
	in := time.Until(l.queue[0].due)
	if l.timer == nil {
		l.timer = time.AfterFunc(in, l.goOff)
		return
	}
	l.timer.Reset(in)
}

func (l *line) goOff() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release(time.Now())
	l.arm()
}

// release writes the frames that are due.
func (l *line) release(now time.Time) {
	for len(l.queue) > 0 && !l.queue[0].due.After(now) {
		h := heap.Pop(&l.queue).(held)
		l.queued -= len(h.frame)
		l.write(h.frame)
	}
}

// write hands a frame to the other end. A frame that the other end does not take is lost, as on any cable.
func (l *line) write(frame []byte) {
	if _, err := l.to.Write(frame); err != nil {
		l.stats.Lost++
		return
	}
	l.stats.Forwarded++
}

// held is a frame under way.
type held struct {
	due    time.Time
	number uint64
	frame  []byte
}

// queue is a heap of frames, ordered by due time and then by arrival.
type queue []held

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	if c := q[i].due.Compare(q[j].due); c != 0 {
		return c < 0
	}
	return q[i].number < q[j].number
}

func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *queue) Push(h any) { *q = append(*q, h.(held)) }

func (q *queue) Pop() any {
	last := len(*q) - 1
	h := (*q)[last]
	(*q)[last] = held{}
	*q = (*q)[:last]
	return h
}
