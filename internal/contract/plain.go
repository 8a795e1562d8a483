package contract

import (
	"encoding/binary"
	"math/bits"
)

// The constants hold the same byte eight times.
const (
	ones        = 0x0101010101010101
	highBits    = ones * 0x80
	spaces      = ones * ' '
	quotes      = ones * '"'
	backslashes = ones * '\\'
)

// plain returns the length n of a prefix of b without a quote, a backslash or a control character, and whether that
// prefix is ASCII. The prefix ends at the first such byte, or else after the last whole word of eight bytes. plain
// reads eight bytes at a time, since most of a payload is one string.
//
// A subtraction sets the high bit of the first byte that borrows, and perhaps, wrongly, of later bytes. So the lowest
// bit that is set is right (Warren, Hacker's Delight, section 6-1). A byte that is not ASCII has its high bit set
// before, and is plain.
func plain(b []byte) (n int, ascii bool) {
	var seen uint64
	for rest := b; len(rest) >= 8; rest = rest[8:] {
		w := binary.LittleEndian.Uint64(rest)
		found := ((w - spaces) | ((w ^ quotes) - ones) | ((w ^ backslashes) - ones)) &^ w & highBits
		if found != 0 {
			before := found&-found - 1 // a mask of the bits below the lowest one
			return n + bits.TrailingZeros64(found)/8, (seen|w&before)&highBits == 0
		}
		seen |= w
		n += 8
	}
	return n, seen&highBits == 0
}
