package netlab

import (
	"container/heap"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

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
