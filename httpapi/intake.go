package httpapi

import "sync"

// intake holds the lines that were parsed and wait for the commit under way to end. Whatever is there then is the
// next commit, so commits grow with the load by themselves.
type intake[T any] struct {
	maxLines, maxBytes int

	mu    sync.Mutex
	moved sync.Cond // on mu; something below changed
	lines []T
	bytes int    // of lines; put waits while it or len(lines) has reached its maximum
	full  func() // called once, when put would wait for room; nil: nobody cares
	ended bool   // no more lines come
	cut   bool   // nobody waits any longer
}

func newIntake[T any](maxLines, maxBytes int) *intake[T] {
	in := &intake[T]{maxLines: maxLines, maxBytes: maxBytes}
	in.moved.L = &in.mu
	return in
}

// put adds a line that came in size bytes, once there is room. It is false if the stream was cut.
func (in *intake[T]) put(l T, size int) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for !in.cut && (len(in.lines) >= in.maxLines || in.bytes >= in.maxBytes) {
		if full := in.full; full != nil {
			in.full = nil
			in.mu.Unlock()
			full()
			in.mu.Lock()
			continue
		}
		in.moved.Wait()
	}
	if in.cut {
		return false
	}
	in.lines = append(in.lines, l)
	in.bytes += size
	if len(in.lines) == 1 {
		in.moved.Broadcast()
	}
	return true
}

// take waits for lines and takes them all, in the place of spare. It is false after the last ones.
func (in *intake[T]) take(spare []T) ([]T, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for !in.cut && !in.ended && len(in.lines) == 0 {
		in.moved.Wait()
	}
	if in.cut || len(in.lines) == 0 {
		return nil, false
	}
	lines := in.lines
	in.lines, in.bytes = spare[:0], 0
	in.moved.Broadcast()
	return lines, true
}

// end says that no more lines come.
func (in *intake[T]) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
	in.moved.Broadcast()
}

// abandon wakes and sends away everyone who waits.
func (in *intake[T]) abandon() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.cut = true
	in.moved.Broadcast()
}
