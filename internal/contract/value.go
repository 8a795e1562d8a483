package contract

import (
	"fmt"
	"math"
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
	text, end, err := r.unquoted(r.pos)
	r.pos = end
	return text, err
}

// Null passes a null, and reports whether it found one.
func (r *Reader) Null() bool {
	if r.Peek() != 'n' {
		return false
	}
	end, err := r.skipWord(r.pos, "null")
	r.pos = end
	return err == nil
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
	if n, ok := r.short(least, most); ok {
		return n, nil
	}
	raw, err := r.number(name, "a whole number")
	if err != nil {
		return 0, err
	}
	digits, whole := wholeNumber(string(raw))
	if !whole {
		return 0, &MemberError{Name: name, Detail: "must be a whole number"}
	}
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil && least <= n && n <= most {
		return n, nil
	}
	return 0, outside(name, raw, fmt.Sprintf("%d to %d", least, most))
}

// Uint reads a whole number from 0 to most.
func (r *Reader) Uint(name string, most uint64) (uint64, error) {
	if n, ok := r.short(0, int64(min(most, math.MaxInt64))); ok {
		return uint64(n), nil
	}
	raw, err := r.number(name, "a whole number")
	if err != nil {
		return 0, err
	}
	digits, whole := wholeNumber(string(raw))
	if n, err := strconv.ParseUint(digits, 10, 64); whole && err == nil && n <= most {
		return n, nil
	}
	return 0, outside(name, raw, fmt.Sprintf("0 to %d", most))
}

// wholeNumber returns the digits, with their sign, of a JSON number that is whole in any of its spellings, such as 3.0
// or 3e2. Of a number with more digits than an integer of 64 bits has, it returns too many.
func wholeNumber(raw string) (digits string, whole bool) {
	const tooMany = 20
	mantissa, power, _ := strings.Cut(strings.ToLower(raw), "e")
	before, behind, _ := strings.Cut(mantissa, ".")
	behind = strings.TrimRight(behind, "0")
	digits = before + behind
	if strings.Trim(digits, "-0") == "" {
		return "0", true
	}
	shift, err := 0, error(nil)
	if power != "" {
		shift, err = strconv.Atoi(power)
	}
	switch shift -= len(behind); {
	case err != nil: // the power has no room in an int
		return strings.Repeat("9", tooMany), power[0] != '-'
	case shift >= 0:
		return digits + strings.Repeat("0", min(shift, tooMany)), true
	}
	kept := strings.TrimRight(digits, "0")
	return kept + strings.Repeat("0", max(0, len(digits)+shift-len(kept))), len(kept) <= len(digits)+shift
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

// short reads a whole number from least to most in one pass, if the number has 1 to 18 digits, no sign, and does not
// begin with 0. It leaves any other value unread.
func (r *Reader) short(least, most int64) (n int64, ok bool) {
	if c := r.Peek(); c < '1' || c > '9' {
		return 0, false
	}
	i := r.pos
	for ; i < len(r.data) && r.data[i]-'0' <= 9; i++ {
		n = n*10 + int64(r.data[i]-'0')
	}
	if i-r.pos > 18 || n < least || n > most || i < len(r.data) && (r.data[i] == '.' || r.data[i]|0x20 == 'e') {
		return 0, false
	}
	r.pos = i
	return n, true
}

func (r *Reader) number(name, want string) ([]byte, error) {
	if c := r.Peek(); c != '-' && (c < '0' || c > '9') {
		return nil, r.WrongType(name, want)
	}
	begin := r.pos
	end, err := r.skipNumber(begin)
	r.pos = end
	return r.data[begin:end], err
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
