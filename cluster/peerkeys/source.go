package peerkeys

import (
	"bytes"
	"slices"
	"sync/atomic"
)

// source is a value that is read from files. One goroutine at a time calls open and look; others call get.
type source[T any] struct {
	files []string
	parse func(contents [][]byte) (T, error)
	admit func(present, next T) error // returns an error if next must not replace the present value; nil: it may

	value   atomic.Pointer[T]
	refused atomic.Bool // the contents of the files are faulty and not in use

	seen   look  // the last look
	judged look  // the last look whose contents were judged
	err    error // the fault of the judged contents
}

// look is an attempt to read the files.
type look struct {
	contents [][]byte
	err      error
}

func (l look) equal(m look) bool {
	if l.err != nil || m.err != nil {
		return l.err != nil && m.err != nil && l.err.Error() == m.err.Error()
	}
	return slices.EqualFunc(l.contents, m.contents, bytes.Equal)
}

func (s *source[T]) get() T { return *s.value.Load() }

// open reads the first value.
func (s *source[T]) open() error {
	s.judged.contents, s.judged.err = readFiles(s.files)
	if s.judged.err != nil {
		return s.judged.err
	}
	value, err := s.parse(s.judged.contents)
	if err != nil {
		return err
	}
	s.seen = s.judged
	s.value.Store(&value)
	return nil
}

// outcome is the result of a look.
type outcome int

const (
	unchanged outcome = iota
	taken             // the value is new
	faulty            // the contents are faulty for a new reason
)

// look reads the files, and takes their value if it is new. Unless now is set, new contents must be the same as at the
// last look. Faulty contents are judged again each time, since time may mend them.
func (s *source[T]) look(now bool) (outcome, error) {
	var l look
	l.contents, l.err = readFiles(s.files)
	settled := now || l.equal(s.seen)
	s.seen = l
	if !settled || s.err == nil && l.equal(s.judged) {
		return unchanged, nil
	}
	err := s.take(l)
	again := err != nil && s.err != nil && err.Error() == s.err.Error()
	s.judged, s.err = l, err
	s.refused.Store(err != nil)
	switch {
	case err == nil:
		return taken, nil
	case again && !now:
		return unchanged, nil
	}
	return faulty, err
}

// take makes the contents the value if they are sound.
func (s *source[T]) take(l look) error {
	if l.err != nil {
		return l.err
	}
	next, err := s.parse(l.contents)
	if err != nil {
		return err
	}
	if s.admit != nil {
		if err := s.admit(s.get(), next); err != nil {
			return err
		}
	}
	s.value.Store(&next)
	return nil
}
