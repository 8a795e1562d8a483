package contract

import (
	"encoding/base64"
	"strconv"
	"time"
	"unicode/utf8"
	"unsafe"
)

// The Append functions write an object member by member, each with a comma in front. Close makes an object of the
// members.

// Close makes an object of the members that begin at b[begin:].
func Close(b []byte, begin int) []byte {
	if len(b) == begin {
		return append(b, "{}"...)
	}
	b[begin] = '{' // in place of the first member's comma
	return append(b, '}')
}

// members holds each field's name with the comma, quotes and colon that precede its value.
var members = func() (table [len(names)]string) {
	for f, name := range names {
		table[f] = `,"` + name + `":`
	}
	return table
}()

// AppendName appends the name of a member. The caller must append the value next.
func AppendName(b []byte, f Field) []byte { return append(b, members[f]...) }

// AppendText appends a member whose value is a string.
func AppendText(b []byte, f Field, text string) []byte { return AppendString(AppendName(b, f), text) }

// AppendTextIf appends a member whose value is a string, unless the text is empty.
func AppendTextIf(b []byte, f Field, text string) []byte {
	if text == "" {
		return b
	}
	return AppendText(b, f, text)
}

// AppendUint appends a member whose value is a whole number.
func AppendUint(b []byte, f Field, n uint64) []byte {
	return strconv.AppendUint(AppendName(b, f), n, 10)
}

// AppendInt appends a member whose value is a whole number, perhaps a negative one.
func AppendInt(b []byte, f Field, n int64) []byte { return strconv.AppendInt(AppendName(b, f), n, 10) }

// AppendSpan appends a member whose value is a duration, unless the duration is 0.
func AppendSpan(b []byte, f Field, d time.Duration) []byte {
	if d == 0 {
		return b
	}
	return AppendDuration(AppendName(b, f), d)
}

// AppendSpans appends a member whose value is a list of durations, unless the list is empty.
func AppendSpans(b []byte, f Field, list []time.Duration) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(AppendName(b, f), '[')
	for i, d := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendDuration(b, d)
	}
	return append(b, ']')
}

// AppendTime appends a member whose value is an instant, given in Unix milliseconds.
func AppendTime(b []byte, f Field, ms int64) []byte { return AppendInstant(AppendName(b, f), ms) }

// AppendTimeOrNull appends a member whose value is an instant, given in Unix milliseconds. The instant 0 means none and
// is written as null.
func AppendTimeOrNull(b []byte, f Field, ms int64) []byte {
	if ms == 0 {
		return append(AppendName(b, f), "null"...)
	}
	return AppendTime(b, f, ms)
}

// AppendPair appends the i-th member (from 0) of a map of strings.
func AppendPair(b []byte, i int, name, value string) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return AppendString(append(AppendString(b, name), ':'), value)
}

const hexDigits = "0123456789abcdef"

// AppendString appends a JSON string. Bytes that are not UTF-8 become U+FFFD.
func AppendString(b []byte, text string) []byte {
	b = append(b, '"')
	i, ascii := plain(unsafe.Slice(unsafe.StringData(text), len(text)))
	if !ascii {
		i = 0
	}
	done := 0 // text[:done] is appended, text[done:i] needs no escape
	for i < len(text) {
		c := text[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(text[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, text[done:i]...), "\ufffd"...)
				done = i + 1
			}
			i += n
			continue
		}
		if c < 0x20 || c == '"' || c == '\\' {
			b = appendEscape(append(b, text[done:i]...), c)
			done = i + 1
		}
		i++
	}
	return append(append(b, text[done:]...), '"')
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\t':
		return append(b, '\\', 't')
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// AppendBool appends a member whose value is true or false.
func AppendBool(b []byte, f Field, value bool) []byte {
	return strconv.AppendBool(AppendName(b, f), value)
}

// AppendFloat appends a member whose value is a number.
func AppendFloat(b []byte, f Field, n float64) []byte {
	return strconv.AppendFloat(AppendName(b, f), n, 'f', -1, 64)
}

// AppendBase64 appends a member whose value is bytes, written as a base64 string.
func AppendBase64(b []byte, f Field, data []byte) []byte {
	b = append(AppendName(b, f), '"')
	return append(base64.StdEncoding.AppendEncode(b, data), '"')
}

// AppendSigning appends the member signing with a queue's secrets or their fingerprints, unless there are none.
func AppendSigning(b []byte, secrets []string) []byte {
	if len(secrets) == 0 {
		return b
	}
	b = AppendName(b, Signing)
	begin := len(b)
	b = append(AppendName(b, Secrets), '[')
	for i, text := range secrets {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(b, text)
	}
	return Close(append(b, ']'), begin)
}
