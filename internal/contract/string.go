package contract

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// unquoted reads the string at i and returns its content, which aliases the text if there are no escapes. It refuses a
// lone surrogate, which has no UTF-8 form: a replacement would change the caller's text.
func (r *Reader) unquoted(i int) (content []byte, end int, err error) {
	end, escaped, err := r.skipString(i)
	if err != nil {
		return nil, i, err
	}
	content = r.data[i+1 : end-1]
	if !escaped {
		return content, end, nil
	}
	content, ok := unescape(content)
	if !ok {
		return nil, i, r.failAt(i+1, "half of a surrogate pair in a string")
	}
	return content, end, nil
}

// skipString passes the string at i, and reports whether it has escapes.
func (r *Reader) skipString(i int) (end int, escaped bool, err error) {
	n, ascii := plain(r.data[i+1:])
	if end = i + 1 + n; ascii && r.at(end, '"') {
		return end + 1, false, nil
	}
	return r.skipAnyString(i)
}

// skipAnyString is skipString for the strings that have more than one run of plain ASCII.
func (r *Reader) skipAnyString(i int) (end int, escaped bool, err error) {
	begin, ascii := i+1, true
	for i := begin; i < len(r.data); i++ {
		n, only := plain(r.data[i:])
		ascii = ascii && only
		if i += n; i == len(r.data) {
			break
		}
		switch c := r.data[i]; {
		case c == '"':
			if !ascii && !utf8.Valid(r.data[begin:i]) {
				return i, false, r.failAt(begin, "a string is not UTF-8")
			}
			return i + 1, escaped, nil
		case c == '\\':
			escaped = true
			n := escapeLength(r.data[i:])
			if n == 0 {
				return i, false, r.failAt(i, "a bad escape in a string")
			}
			i += n - 1
		case c < 0x20:
			return i, false, r.failAt(i, "a control character in a string")
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return len(r.data), false, r.failAt(len(r.data), "a string does not end")
}

// escapeLength returns the length of the escape at the beginning of b, or 0 if there is none.
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

// unescape resolves the escapes of a string that skipString has passed. It returns false for a lone surrogate.
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

// unicodeEscape reads \uXXXX, or a surrogate pair of two such escapes, and returns the character and the escape's
// length. The length is 0 for half of a pair.
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
		panic("contract: escape was not checked: " + string(digits))
	}
	return rune(n)
}
