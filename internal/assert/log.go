package assert

import (
	"bytes"
	"strings"
	"sync"
)

// Log is a log, or other output, that a test reads while goroutines write it. The zero value is empty.
type Log struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	wrote chan struct{} // closed by the next Write; nil: nothing waits for it
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wrote != nil {
		close(l.wrote)
		l.wrote = nil
	}
	return l.buf.Write(p)
}

// String returns the output up to now.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Take returns the number of times that the output has text, and forgets the output.
func (l *Log) Take(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.buf.Reset()
	return strings.Count(l.buf.String(), text)
}

// Await waits until the output has text.
func (l *Log) Await(text string) {
	for {
		l.mu.Lock()
		if l.wrote == nil {
			l.wrote = make(chan struct{})
		}
		found, wrote := strings.Contains(l.buf.String(), text), l.wrote
		l.mu.Unlock()
		if found {
			return
		}
		<-wrote
	}
}
