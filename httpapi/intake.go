package httpapi

import "sync"

// intake holds the lines that were parsed and wait for the commit under way to end. Whatever is there then is the
// next commit, so commits grow with the load by themselves.
type intake struct {
	maxLines, maxBytes int

	mu    sync.Mutex
	moved sync.Cond // on mu; something below changed
	lines []line
	bytes int  // of lines; put waits while it or len(lines) has reached its maximum
	ended bool // no more lines come
	cut   bool // nobody waits any longer
}

func newIntake(maxLines, maxBytes int) *intake {
	in := &intake{maxLines: maxLines, maxBytes: maxBytes}
	in.moved.L = &in.mu
	return in
}

// put adds a line, once there is room. It is false if the batch was cut.
func (in *intake) put(l line) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for !in.cut && (len(in.lines) >= in.maxLines || in.bytes >= in.maxBytes) {
		in.moved.Wait()
	}
	if in.cut {
		return false
	}
	in.lines = append(in.lines, l)
	in.bytes += l.size
	if len(in.lines) == 1 {
		in.moved.Broadcast()
	}
	return true
}

// take waits for lines and takes them all, in the place of spare. It is false after the last ones.
func (in *intake) take(spare []line) ([]line, bool) {
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
func (in *intake) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
	in.moved.Broadcast()
}

// abandon wakes and sends away everyone who waits.
func (in *intake) abandon() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.cut = true
	in.moved.Broadcast()
}
