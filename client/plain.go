package client

import (
	"encoding/binary"
	"math/bits"
)

// A byte, eight times.
const (
	ones        = 0x0101010101010101
	highBits    = ones * 0x80
	spaces      = ones * ' '
	quotes      = ones * '"'
	backslashes = ones * '\\'
)

// skipPlain passes bytes that are no quote, backslash or control character, eight at a time: it may stop up to seven
// before the first that is one, or before the end.
func skipPlain(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, backslash := w^quotes, w^backslashes
		// A subtraction sets the high bit of the first byte that it borrows for, and perhaps of bytes behind it.
		if found := ((w-spaces)&^w | (quote-ones)&^quote | (backslash-ones)&^backslash) & highBits; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	return i
}
