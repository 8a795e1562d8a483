package redisapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// The bounds of what a connection may send.
const (
	smallBuffer  = 4 << 10  // of an idle connection
	largeBuffer  = 64 << 10 // of a busy one; the longest inline command, too
	maxHeader    = 64       // bytes of a line with a number
	maxCommand   = 4 << 20  // bytes of one command
	freeBytes    = 16 << 10 // bytes of commands for which no memory is reserved
	argumentCost = 64       // bytes of an argument beside its own
)

// protocolError ends a connection, since its next bytes have no meaning.
type protocolError struct{ detail string }

func (e *protocolError) Error() string { return "ERR Protocol error: " + e.detail }

var errMemory = errors.New("ERR the memory for commands of this node is used up: send shorter commands, or later")

// reader reads commands: arrays of bulk strings, or lines of words. It holds the bytes that have arrived, and parses
// each of them once. It is for one goroutine.
type reader struct {
	in      io.Reader
	reserve func(bytes int) bool // takes memory until release

	buf        []byte
	start, end int // of the bytes that are not parsed

	args     [][]byte // of the unfinished command
	left     int      // its arguments to come, and 0 between two commands
	arg      []byte   // the part of the next argument that is here
	need     int      // its length; -1: not known yet
	size     int      // bytes of the command
	held     int      // bytes of the commands since the last release
	reserved int      // bytes of them for which memory is reserved
}

func newReader(in io.Reader, reserve func(int) bool) *reader {
	return &reader{in: in, reserve: reserve, buf: make([]byte, smallBuffer), need: -1}
}

// begun reports whether a part of a command is here.
func (r *reader) begun() bool { return r.left > 0 || r.start < r.end }

// fill reads more bytes, once.
func (r *reader) fill() error {
	switch {
	case r.start == r.end:
		r.start, r.end = 0, 0
		if !r.begun() && len(r.buf) > smallBuffer {
			r.buf = make([]byte, smallBuffer)
		}
	case r.start > 0:
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
	n, err := r.in.Read(r.buf[r.end:])
	r.end += n
	if r.end == len(r.buf) && r.end < largeBuffer {
		r.buf = append(make([]byte, 0, largeBuffer), r.buf...)[:largeBuffer]
	}
	if n > 0 {
		return nil
	}
	return err
}

// release gives back the memory of the commands so far. One that is unfinished keeps its own.
func (r *reader) release() (bytes int) {
	keep := 0
	if r.left > 0 {
		keep = r.size
	}
	bytes = r.reserved - min(r.reserved, keep)
	r.held, r.reserved = keep, r.reserved-bytes
	return bytes
}

// next returns the next command that is here whole, or nil. The caller may keep it.
func (r *reader) next() ([][]byte, error) {
	for {
		if r.left == 0 {
			args, more, err := r.begin()
			if err != nil || args != nil || !more {
				return args, err
			}
			continue
		}
		whole, err := r.argument()
		if err != nil || !whole {
			return nil, err
		}
		if r.left--; r.left == 0 {
			args := r.args
			r.args = nil
			return args, nil
		}
	}
}

// begin reads the first line of a command. It returns the arguments of an inline command. more reports whether there
// was a line.
func (r *reader) begin() (args [][]byte, more bool, err error) {
	if r.start == r.end {
		return nil, false, nil
	}
	if r.buf[r.start] != '*' {
		line, ok, err := r.line(largeBuffer-1, "too big inline request")
		if err != nil || !ok {
			return nil, false, err
		}
		if bytes.ContainsAny(line, `"'`) {
			return nil, false, &protocolError{"no quotes are understood in inline requests"}
		}
		r.size = 0
		args := bytes.Fields(bytes.Clone(line))
		if err := r.count(len(line) + len(args)*argumentCost); err != nil {
			return nil, false, err
		}
		if len(args) == 0 {
			return nil, true, nil // of an empty line
		}
		return args, true, nil
	}
	line, ok, err := r.line(maxHeader, "too big mbulk count string")
	if err != nil || !ok {
		return nil, false, err
	}
	n, err := strconv.ParseInt(string(line[1:]), 10, 64)
	if err != nil || n > maxCommand/argumentCost {
		return nil, false, &protocolError{"invalid multibulk length"}
	}
	r.size, r.left, r.need = 0, int(max(n, 0)), -1 // none, as with Redis, is no command
	return nil, true, nil
}

// argument reads on in the next argument, and reports whether it is whole.
func (r *reader) argument() (whole bool, err error) {
	if r.need < 0 {
		line, ok, err := r.line(maxHeader, "too big bulk count string")
		if err != nil || !ok {
			return false, err
		}
		if len(line) == 0 || line[0] != '$' {
			return false, &protocolError{fmt.Sprintf("expected '$', got %q", line[:min(1, len(line))])}
		}
		n, err := strconv.ParseInt(string(line[1:]), 10, 64)
		if err != nil || n < 0 || n > maxCommand {
			return false, &protocolError{"invalid bulk length"}
		}
		if err := r.count(int(n) + argumentCost); err != nil {
			return false, err
		}
		r.need, r.arg = int(n), make([]byte, 0, min(int(n), r.end-r.start))
	}
	part := r.buf[r.start:min(r.end, r.start+r.need-len(r.arg))]
	r.arg = append(r.arg, part...)
	r.start += len(part)
	if len(r.arg) < r.need || r.end-r.start < len("\r\n") {
		return false, nil
	}
	if string(r.buf[r.start:r.start+2]) != "\r\n" {
		return false, &protocolError{"an argument has not the length that it was announced with"}
	}
	r.start += 2
	r.args = append(r.args, r.arg)
	r.need, r.arg = -1, nil
	return true, nil
}

// count counts bytes of the command.
func (r *reader) count(bytes int) error {
	r.size += bytes
	r.held += bytes
	if r.size > maxCommand {
		return &protocolError{fmt.Sprintf("a command has more than %d bytes", maxCommand)}
	}
	if more := r.held - freeBytes - r.reserved; more > 0 {
		if !r.reserve(more) {
			return errMemory
		}
		r.reserved += more
	}
	return nil
}

// line returns the next line without its end, if it is here.
func (r *reader) line(limit int, tooLong string) (line []byte, ok bool, err error) {
	here := r.buf[r.start:r.end]
	n := bytes.IndexByte(here, '\n')
	if n > limit || n < 0 && len(here) >= limit {
		return nil, false, &protocolError{tooLong}
	}
	if n < 0 {
		return nil, false, nil
	}
	r.start += n + 1
	return bytes.TrimSuffix(here[:n], []byte("\r")), true, nil
}

// whole returns the commands that are here whole. An error follows them.
func (r *reader) whole() (cmds [][][]byte, err error) {
	for {
		args, err := r.next()
		if err != nil || args == nil {
			return cmds, err
		}
		cmds = append(cmds, args)
	}
}
