package audit

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
	"time"
)

// line is one whole line of a file.
type line struct {
	text []byte // without its end, and nil if it is longer than all records; valid until the next line
	size int64  // with its end
}

// lines yields the whole lines of a file, and last the error that ended the reading, if there was one.
func lines(r io.Reader) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		for in := bufio.NewReaderSize(r, maxLine); ; {
			text, err := in.ReadSlice('\n')
			size := int64(len(text))
			for errors.Is(err, bufio.ErrBufferFull) {
				text, err = in.ReadSlice('\n')
				size += int64(len(text))
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if size > maxLine {
				text = nil
			}
			if !yield(line{bytes.TrimSuffix(text, []byte("\n")), size}, err) || err != nil {
				return
			}
		}
	}
}

// logged is a whole line of a file, read as a record.
type logged struct {
	text    []byte // without its end; nil if the line is no record
	number  int    // of the line in the file, from 1
	end     int64  // offset behind the line
	at      position
	time    time.Time
	damaged bool // the line is no record, or its id does not fit in with those of its neighbours
}

// entries yields the whole lines of a file, and last the error that ended the reading, if there was one. bound is the
// position of a record behind the file; the zero position: unknown.
func entries(r io.Reader, bound position) iter.Seq2[logged, error] {
	return func(yield func(logged, error) bool) {
		w := window{bound: bound}
		number, end := 0, int64(0)
		for l, err := range lines(r) {
			if err != nil {
				_ = w.pass(0, yield) && yield(logged{}, err)
				return
			}
			number, end = number+1, end+l.size
			if w.add(l.text, number, end); !w.pass(ahead, yield) {
				return
			}
		}
		w.pass(0, yield)
	}
}

// ahead is the number of records behind a record by which it is judged.
const ahead = 2

// window is the lines of a file that are not judged yet.
type window struct {
	before position // of the last sound record
	held   []logged
	next   []position // of the records among them
	bound  position
}

func (w *window) add(text []byte, number int, end int64) {
	e := logged{number: number, end: end}
	at, when, err := parseHead(text)
	if e.damaged = err != nil; !e.damaged {
		e.text, e.at, e.time = bytes.Clone(text), at, when
		w.next = append(w.next, at)
	}
	w.held = append(w.held, e)
}

// pass yields the first lines, up to the record behind which there are no more than some others.
func (w *window) pass(others int, yield func(logged, error) bool) bool {
	for len(w.held) > 0 && (w.held[0].damaged || len(w.next) > others) {
		e := w.held[0]
		w.held = w.held[1:]
		if !e.damaged {
			w.next = w.next[1:]
			if e.damaged = !fits(w.before, e.at, append(w.next[:len(w.next):len(w.next)], w.bound)); !e.damaged {
				w.before = e.at
			}
		}
		if !yield(e, nil) {
			return false
		}
	}
	return true
}

// fits reports whether a record can stand between another one and some later ones; a zero position stands for an
// unknown one. The numbers of a log rise, and a file hardly ever has records of two logs. A digit that a disk has
// flipped stands out beside sound neighbours. Without this check a number that is too high would hide the records
// behind it from readers, who have passed its position.
func fits(before, at position, later []position) bool {
	if before.log == at.log && at.number <= before.number {
		return false
	}
	known, same := false, false
	for _, l := range later[:min(len(later), ahead)] {
		switch {
		case l.log == before.log && l.number <= before.number:
			continue // it is damaged itself
		case l.log == at.log && l.number > at.number:
			return true
		}
		known, same = known || l.log != "", same || l.log == at.log
	}
	if before.log == at.log {
		return !same
	}
	return before.log == "" && !known
}
