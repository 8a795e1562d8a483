package stream

import "sync"

// Intake holds parsed lines during a commit. All lines that are present at its end form the next commit, so the size of
// commits adapts to the load.
type Intake[T any] struct {
	maxLines, maxBytes int

	mu    sync.Mutex
	moved sync.Cond // on mu; something below changed
	lines []T
	bytes int    // of lines; Put waits while it or len(lines) has reached its maximum
	full  func() // called once, when Put would wait for room; nil: never
	await func() // called each time before Put waits; nil: never
	ended bool   // no more lines come
	cut   bool   // Put and Take wait no more
}

// NewIntake returns an intake that holds lines up to either bound.
func NewIntake[T any](maxLines, maxBytes int) *Intake[T] {
	in := &Intake[T]{maxLines: maxLines, maxBytes: maxBytes}
	in.moved.L = &in.mu
	return in
}

// OnFull sets a function that is called once, when Put would wait for room.
func (in *Intake[T]) OnFull(full func()) { in.full = full }

// OnWait sets a function that is called each time before Put waits for room, or calls the function of OnFull, which may
// wait for the client. It must not use the intake.
func (in *Intake[T]) OnWait(await func()) { in.await = await }

// Put adds a line of size bytes, once there is room. It returns false if the stream was cut, or after the end.
func (in *Intake[T]) Put(l T, size int) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for !in.cut && !in.ended && (len(in.lines) >= in.maxLines || in.bytes >= in.maxBytes) {
		if in.await != nil {
			in.await()
		}
		if full := in.full; full != nil {
			in.full = nil
			in.mu.Unlock()
			full()
			in.mu.Lock()
			continue
		}
		in.moved.Wait()
	}
	if in.cut || in.ended {
		return false
	}
	in.lines = append(in.lines, l)
	in.bytes += size
	if len(in.lines) == 1 {
		in.moved.Broadcast()
	}
	return true
}

// Take waits for lines and takes all of them; spare becomes the buffer for the next ones. It returns false after the
// last ones.
func (in *Intake[T]) Take(spare []T) ([]T, bool) {
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

// End marks that no more lines come.
func (in *Intake[T]) End() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.end()
}

func (in *Intake[T]) end() {
	in.ended = true
	in.moved.Broadcast()
}

// EndWith adds a last line, whether there is room or not. It does nothing after the end.
func (in *Intake[T]) EndWith(last T) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.ended {
		in.lines = append(in.lines, last)
		in.end()
	}
}

// Abandon wakes all waiting callers, whose calls return false.
func (in *Intake[T]) Abandon() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.cut = true
	in.moved.Broadcast()
}
