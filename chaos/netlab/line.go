package netlab

import (
	"container/heap"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Stats count what became of the frames of one direction.
type Stats struct {
	Forwarded  int64 // written at the other end, copies too
	Lost       int64 // cut off, lost by chance, or crowded out
	Duplicated int64
	Reordered  int64
}

const (
	// maxQueued bounds the bytes under way in one direction, as a router's memory does: what comes on top is lost.
	maxQueued = 16 << 20
	// A frame that shall be overtaken is held back for this long, in place of any order.
	minHeldBack, maxHeldBack = time.Millisecond, 20 * time.Millisecond
)

// line is one direction between two hosts.
type line struct {
	to io.Writer

	mu      sync.Mutex // guards what follows, and keeps writes in order
	rand    *rand.Rand
	imposed []*Quality
	quality Quality // all that is imposed, together
	queue   queue
	queued  int       // bytes in the queue
	last    time.Time // when the last frame is due of those that keep their order; never earlier than one before it
	count   uint64    // of frames that were queued
	timer   *time.Timer
	stats   Stats
}

func newLine(to io.Writer, rng *rand.Rand) *line {
	return &line{to: to, rand: rng}
}

// impose adds to what happens to frames from now on, until lift is called. Those under way arrive as they would have,
// unless the line is cut.
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

// heal lifts everything that is imposed.
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

func (l *line) counts() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// forward takes a frame, which the caller may overwrite afterwards.
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

// arm makes the timer go off when the first frame is due. It may go off too early, never too late.
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

// release writes what is due.
func (l *line) release(now time.Time) {
	for len(l.queue) > 0 && !l.queue[0].due.After(now) {
		h := heap.Pop(&l.queue).(held)
		l.queued -= len(h.frame)
		l.write(h.frame)
	}
}

// write hands a frame to the other end. One that does not take it has lost it, as on any cable.
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

// queue is a heap: the first is due first, and came first among those due at once.
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
