package client

import (
	"bytes"
	"encoding/json"
)

// A payload goes into a request as it is, so it must be known to be one JSON value: any other bytes could pass for
// fields. encoding/json would tell so too, at several times the cost of everything else that is done to a call.

// maxNesting is how deep skipValue looks. Deeper ones are left to encoding/json.
const maxNesting = 1000

// isJSON tells whether b is one JSON value.
func isJSON(b []byte) bool {
	end := skipValue(b, 0)
	if end == tooDeep {
		return json.Valid(b)
	}
	return end >= 0 && skipSpace(b, end) == len(b)
}

// breaksLine tells whether b cannot stand in a line.
func breaksLine(b []byte) bool {
	return bytes.IndexByte(b, '\n') >= 0 || bytes.IndexByte(b, '\r') >= 0
}

// What skipValue returns in place of an end.
const (
	malformed = -1
	tooDeep   = -2
)

// skipValue passes the value that begins at b[i:], after white space, and returns where it ends, or one of the above.
// It neither recurses nor allocates.
func skipValue(b []byte, i int) int {
	var open nesting
	for {
		i = skipSpace(b, i)
		if i == len(b) {
			return malformed
		}
		inside := false
		if c := b[i]; c == '{' || c == '[' {
			i, inside = open.enter(b, i)
		} else {
			i = skipScalar(b, i)
		}
		if i >= 0 && !inside {
			i = open.leave(b, i)
		}
		if i < 0 || open.depth == 0 {
			return i
		}
	}
}

// nesting remembers for each open bracket whether it is an object's, a bit each.
type nesting struct {
	depth   int
	objects [maxNesting/64 + 1]uint64
}

// enter passes an opening bracket. Inside tells that a value must follow, in an object its name is passed; else the
// bracket was closed at once.
func (n *nesting) enter(b []byte, i int) (end int, inside bool) {
	if n.depth == maxNesting {
		return tooDeep, false
	}
	opening := b[i]
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == opening+2 { // each closing bracket is two after its opening one
		return i + 1, false
	}
	word, bit := n.depth/64, uint64(1)<<(n.depth%64)
	n.objects[word] &^= bit
	n.depth++
	if opening == '[' {
		return i, true
	}
	n.objects[word] |= bit
	return skipName(b, i), true
}

// leave passes what may follow a value: closing brackets, then a comma if another value must follow.
func (n *nesting) leave(b []byte, i int) int {
	for n.depth > 0 {
		i = skipSpace(b, i)
		if i == len(b) {
			return malformed
		}
		last := n.depth - 1
		object := n.objects[last/64]&(1<<(last%64)) != 0
		switch c := b[i]; {
		case c == '}' && object, c == ']' && !object:
			n.depth--
			i++
		case c == ',' && object:
			return skipName(b, skipSpace(b, i+1))
		case c == ',':
			return i + 1
		default:
			return malformed
		}
	}
	return i
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipName passes a member's name and the colon.
func skipName(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return malformed
	}
	if i = skipString(b, i); i < 0 {
		return malformed
	}
	if i = skipSpace(b, i); i == len(b) || b[i] != ':' {
		return malformed
	}
	return i + 1
}

func skipScalar(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case 't':
		return skipWord(b, i, "true")
	case 'f':
		return skipWord(b, i, "false")
	case 'n':
		return skipWord(b, i, "null")
	}
	return skipNumber(b, i)
}

// skipString passes the string whose quote is at b[i].
func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		if i = skipPlain(b, i); i == len(b) {
			break
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < 0x20:
			return malformed
		case c == '\\':
			n := escapeLength(b[i:])
			if n == 0 {
				return malformed
			}
			i += n - 1
		}
	}
	return malformed
}

// escapeLength is how many bytes the escape at the beginning of b takes; 0 if it is none.
func escapeLength(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) >= 6 && isHex(b[2]) && isHex(b[3]) && isHex(b[4]) && isHex(b[5]) {
			return 6
		}
	}
	return 0
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }

func skipWord(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return malformed
	}
	return i + len(word)
}

// skipNumber passes -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func skipNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = skipDigits(b, i); i < 0 {
		return malformed
	}
	if i < len(b) && b[i] == '.' {
		if i = skipDigits(b, i+1); i < 0 {
			return malformed
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return skipDigits(b, i)
	}
	return i
}

// skipDigits passes at least one digit.
func skipDigits(b []byte, i int) int {
	begin := i
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	if i == begin {
		return malformed
	}
	return i
}
