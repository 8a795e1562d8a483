package httpapi

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds the nesting of a payload. Receivers' parsers commonly stop there or earlier.
const maxDepth = 1000

// syntaxError says where a text stops being JSON (RFC 8259).
type syntaxError struct {
	offset int // characters before it
	detail string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s at character %d", e.detail, e.offset+1) }

// scanner reads one JSON text. It never recurses, and every byte it has passed is known to be well-formed UTF-8 JSON.
type scanner struct {
	data []byte
	pos  int // 0 <= pos <= len(data)
}

func (s *scanner) fail(detail string) error { return s.failAt(s.pos, detail) }

func (s *scanner) failAt(pos int, detail string) error {
	return &syntaxError{offset: utf8.RuneCount(s.data[:pos]), detail: detail}
}

// peek skips white space and tells the byte that the next token begins with; 0 at the end.
func (s *scanner) peek() byte {
	for ; s.pos < len(s.data); s.pos++ {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// end checks that nothing but white space is left.
func (s *scanner) end() error {
	if s.peek() != 0 || s.pos < len(s.data) {
		return s.fail("something follows the end of the JSON value")
	}
	return nil
}

// object reads an object and hands each name to member, which must consume exactly the member's value.
// The caller has seen the opening brace.
func (s *scanner) object(member func(name []byte) error) error {
	s.pos++ // {
	if s.peek() == '}' {
		s.pos++
		return nil
	}
	for {
		if s.peek() != '"' {
			return s.fail("a member's name must be a string")
		}
		name, err := s.str()
		if err != nil {
			return err
		}
		if s.peek() != ':' {
			return s.fail("a colon is missing")
		}
		s.pos++
		if err := member(name); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			return nil
		default:
			return s.fail("a comma or the closing brace is missing")
		}
	}
}

// str reads a string and tells its content, which aliases the text if it has no escapes. A lone surrogate is refused:
// it has no UTF-8 form, and replacing it would change what the caller wrote.
func (s *scanner) str() ([]byte, error) {
	begin := s.pos + 1
	escaped, err := s.skipString()
	if err != nil {
		return nil, err
	}
	raw := s.data[begin : s.pos-1]
	if !escaped {
		return raw, nil
	}
	text, ok := unescape(raw)
	if !ok {
		return nil, s.failAt(begin, "half of a surrogate pair in a string")
	}
	return text, nil
}

// skipString passes a string and tells whether it has escapes.
func (s *scanner) skipString() (escaped bool, err error) {
	begin := s.pos + 1
	ascii := true
	for i := begin; i < len(s.data); i++ {
		n, only := plain(s.data[i:])
		ascii = ascii && only
		if i += n; i == len(s.data) {
			break
		}
		switch c := s.data[i]; {
		case c == '"':
			s.pos = i + 1
			if !ascii && !utf8.Valid(s.data[begin:i]) {
				s.pos = begin
				return false, s.fail("a string is not UTF-8")
			}
			return escaped, nil
		case c == '\\':
			escaped = true
			n := escapeLength(s.data[i:])
			if n == 0 {
				s.pos = i
				return false, s.fail("a bad escape in a string")
			}
			i += n - 1
		case c < 0x20:
			s.pos = i
			return false, s.fail("a control character in a string")
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	s.pos = len(s.data)
	return false, s.fail("a string does not end")
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

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// unescape resolves the escapes of a string that skipString has passed. It is false for a lone surrogate.
func unescape(raw []byte) ([]byte, bool) {
	out := make([]byte, 0, len(raw))
	for len(raw) > 0 {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return append(out, raw...), true
		}
		out, raw = append(out, raw[:i]...), raw[i:]
		if raw[1] != 'u' {
			out, raw = append(out, simpleEscape(raw[1])), raw[2:]
			continue
		}
		r, n := unicodeEscape(raw)
		if n == 0 {
			return nil, false
		}
		out, raw = utf8.AppendRune(out, r), raw[n:]
	}
	return out, true
}

func simpleEscape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c // quote, backslash, slash
}

// unicodeEscape reads \uXXXX, or two of them that make one character, and tells their length; 0 for half a pair.
func unicodeEscape(raw []byte) (rune, int) {
	r := hexRune(raw[2:6])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(raw) < 12 || raw[6] != '\\' || raw[7] != 'u' {
		return 0, 0
	}
	r = utf16.DecodeRune(r, hexRune(raw[8:12]))
	if r == utf8.RuneError {
		return 0, 0
	}
	return r, 12
}

func hexRune(digits []byte) rune {
	n, err := strconv.ParseUint(string(digits), 16, 32)
	if err != nil {
		panic("httpapi: escape was not checked: " + string(digits))
	}
	return rune(n)
}
