package reload

import (
	"context"
	"sync"
	"time"
)

// Every is the usual interval of looks.
const Every = 2 * time.Second

// Loop calls look again and again until the context ends: with now unset at the interval, which is Every if it is 0,
// and with now set after each receive from again, which may be nil.
func Loop(ctx context.Context, interval time.Duration, again <-chan struct{}, look func(now bool)) {
	if interval == 0 {
		interval = Every
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			look(false)
		case <-again:
			look(true)
		}
	}
}

// Fan passes each receive from one channel on to several readers. It is safe for concurrent use. The zero Fan has no
// readers yet.
type Fan struct {
	mu      sync.Mutex
	readers []chan struct{}
}

// Run passes the receives on until the context ends. from may be nil.
func (f *Fan) Run(ctx context.Context, from <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-from:
			f.pass()
		}
	}
}

// Reader returns a channel of its own for one more reader. It holds one value at most: a reader that is slow looks at
// its files once for several receives.
func (f *Fan) Reader() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	to := make(chan struct{}, 1)
	f.readers = append(f.readers, to)
	return to
}

func (f *Fan) pass() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, to := range f.readers {
		select {
		case to <- struct{}{}:
		default: // its reader is about to look
		}
	}
}
