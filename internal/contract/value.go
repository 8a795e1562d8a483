package contract

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// These methods read the value of the member name, and refuse a value of another type.

// Text reads a string. The result aliases the Reader's text if the string has no escapes.
func (r *Reader) Text(name string) (string, error) {
	b, err := r.TextBytes(name, "a string")
	return unsafe.String(unsafe.SliceData(b), len(b)), err
}

// TextBytes reads a string as bytes. The error for a value of another type reads "must be " and want.
func (r *Reader) TextBytes(name, want string) ([]byte, error) {
	if r.Peek() != '"' {
		return nil, r.WrongType(name, want)
	}
	return r.unquoted()
}

// Null passes a null, and reports whether it found one.
func (r *Reader) Null() bool {
	if r.Peek() != 'n' {
		return false
	}
	begin := r.pos
	if r.skipWord("null") != nil {
		r.pos = begin
		return false
	}
	return true
}

// Bool reads true or false.
func (r *Reader) Bool(name string) (bool, error) {
	if c := r.Peek(); c != 't' && c != 'f' {
		return false, r.WrongType(name, "true or false")
	}
	raw, err := r.Value()
	return string(raw) == "true", err
}

// Whole reads a whole number from least to most.
func (r *Reader) Whole(name string, least, most int64) (int64, error) {
	raw, err := r.number(name, "a whole number")
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case err == nil && least <= n && n <= most:
		return n, nil
	case strings.Trim(strings.TrimPrefix(string(raw), "-"), "0123456789") != "":
		return 0, &MemberError{Name: name, Detail: "must be a whole number"}
	}
	return 0, outside(name, raw, fmt.Sprintf("%d to %d", least, most))
}

// Uint reads a whole number from 0 to most.
func (r *Reader) Uint(name string, most uint64) (uint64, error) {
	raw, err := r.number(name, "a whole number")
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(string(raw), 10, 64)
	if err != nil || n > most {
		return 0, outside(name, raw, fmt.Sprintf("0 to %d", most))
	}
	return n, nil
}

// Number reads a number from least to most, not necessarily a whole one.
func (r *Reader) Number(name string, least, most float64) (float64, error) {
	raw, err := r.number(name, "a number")
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || n < least || n > most {
		return 0, outside(name, raw, fmt.Sprintf("%v to %s", least, strconv.FormatFloat(most, 'f', -1, 64)))
	}
	return n, nil
}

func (r *Reader) number(name, want string) ([]byte, error) {
	if c := r.Peek(); c != '-' && (c < '0' || c > '9') {
		return nil, r.WrongType(name, want)
	}
	begin := r.pos
	err := r.skipNumber()
	return r.data[begin:r.pos], err
}

func outside(name string, raw []byte, limit string) error {
	return &MemberError{Name: name, Detail: "is " + Clip(string(raw)), Limit: limit}
}

// Duration reads a duration in the forms of ParseDuration.
func (r *Reader) Duration(name string) (time.Duration, error) {
	text, err := r.Text(name)
	if err != nil {
		return 0, err
	}
	d, err := ParseDuration(text)
	if err != nil {
		return 0, &MemberError{Name: name, Detail: err.Error()}
	}
	return d, nil
}

// Instant reads an instant in the form of ParseInstant and returns Unix milliseconds.
func (r *Reader) Instant(name string) (int64, error) {
	text, err := r.Text(name)
	if err != nil {
		return 0, err
	}
	ms, err := ParseInstant(text)
	if err != nil {
		return 0, &MemberError{Name: name, Detail: err.Error()}
	}
	return ms, nil
}

// WrongType returns the error for a value of the wrong type, or a syntax error if there is no valid value.
func (r *Reader) WrongType(name, want string) error {
	if err := r.Skip(); err != nil {
		return err
	}
	return &MemberError{Name: name, Detail: "must be " + want}
}

// Valid returns nil if the text is one JSON value that a Reader accepts.
func Valid(text []byte) error {
	r := Reader{data: text}
	if err := r.Skip(); err != nil {
		return err
	}
	return r.End()
}
