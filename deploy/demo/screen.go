package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// screen prints permanent lines, and on a terminal one line below them that is redrawn.
type screen struct {
	out  io.Writer
	live bool

	mu     sync.Mutex // guards status, and keeps lines whole
	status string
}

const clearLine = "\r\x1b[K"

// say prints a permanent line.
func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := "  " + fmt.Sprintf(format, args...) + "\n"
	if s.status != "" {
		line = clearLine + line + s.status
	}
	s.write(line)
}

// update replaces the redrawn line. Without a terminal it prints a permanent line.
func (s *screen) update(format string, args ...any) {
	if !s.live {
		s.say(format, args...)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = "  " + fmt.Sprintf(format, args...)
	s.write(clearLine + s.status)
}

// clear removes the redrawn line.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status != "" {
		s.write(clearLine)
		s.status = ""
	}
}

// Write prints the local cluster's lines.
func (s *screen) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		s.say("%s", strings.TrimSuffix(line, "\n"))
	}
	return len(p), nil
}

func (s *screen) write(text string) {
	_, _ = io.WriteString(s.out, text) // there is no other place to report a failed write
}
