package reload

import (
	"bytes"
	"os"
	"slices"
	"sync/atomic"
)

// Value is a value that is read from files. One goroutine at a time calls Open and Look; others call Get and Refused.
// The first three fields are set before Open and do not change.
type Value[T any] struct {
	Files []string
	Parse func(contents [][]byte) (T, error)
	Admit func(present, next T) error // returns an error if next must not replace the present value; nil: it may

	value   atomic.Pointer[T]
	refused atomic.Bool

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

// Get returns the present value. Open must have succeeded.
func (v *Value[T]) Get() T { return *v.value.Load() }

// Refused reports whether the contents of the files are faulty, so that an earlier value is in use.
func (v *Value[T]) Refused() bool { return v.refused.Load() }

// Open reads the first value.
func (v *Value[T]) Open() error {
	v.judged.contents, v.judged.err = readFiles(v.Files)
	if v.judged.err != nil {
		return v.judged.err
	}
	value, err := v.Parse(v.judged.contents)
	if err != nil {
		return err
	}
	v.seen = v.judged
	v.value.Store(&value)
	return nil
}

// Outcome is the result of a look.
type Outcome int

// The outcomes.
const (
	Unchanged Outcome = iota
	Taken             // the value is new
	Faulty            // the contents are faulty for a new reason
)

// Look reads the files, and takes their value if it is new. Unless now is set, new contents must be the same as at the
// last look. Faulty contents are judged again each time, since time may mend them.
func (v *Value[T]) Look(now bool) (Outcome, error) {
	var l look
	l.contents, l.err = readFiles(v.Files)
	settled := now || l.equal(v.seen)
	v.seen = l
	if !settled || v.err == nil && l.equal(v.judged) {
		return Unchanged, nil
	}
	err := v.take(l)
	again := err != nil && v.err != nil && err.Error() == v.err.Error()
	v.judged, v.err = l, err
	v.refused.Store(err != nil)
	switch {
	case err == nil:
		return Taken, nil
	case again && !now:
		return Unchanged, nil
	}
	return Faulty, err
}

// take makes the contents the value if they are sound.
func (v *Value[T]) take(l look) error {
	if l.err != nil {
		return l.err
	}
	next, err := v.Parse(l.contents)
	if err != nil {
		return err
	}
	if v.Admit != nil {
		if err := v.Admit(v.Get(), next); err != nil {
			return err
		}
	}
	v.value.Store(&next)
	return nil
}

// readFiles returns the contents of the files.
func readFiles(paths []string) ([][]byte, error) {
	contents := make([][]byte, len(paths))
	for i, path := range paths {
		var err error
		if contents[i], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	return contents, nil
}
