package contract

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

// TestPlainStopsWhereItMust tries every byte at every place of two words, alone and before another byte.
func TestPlainStopsWhereItMust(t *testing.T) {
	const length = 16
	for at := range length {
		for c := range 256 {
			for _, behind := range []byte{'a', '"', '\\', 0x1f, 0x80, 0xff} {
				b := bytes.Repeat([]byte{'a'}, length)
				b[min(at+1, length-1)], b[at] = behind, byte(c)
				n, ascii := plain(b)
				want, wantASCII := plainByByte(b)
				if n != want || ascii != wantASCII {
					t.Fatalf("%q: %d bytes, ASCII %v; want %d, %v", b, n, ascii, want, wantASCII)
				}
			}
		}
	}
}

func plainByByte(b []byte) (n int, ascii bool) {
	ascii = true
	for ; n < len(b) && b[n] != '"' && b[n] != '\\' && b[n] >= ' '; n++ {
		ascii = ascii && b[n] < utf8.RuneSelf
	}
	return n, ascii
}

// TestPlainLooksAtWords checks that plain leaves a rest shorter than eight bytes to its caller.
func TestPlainLooksAtWords(t *testing.T) {
	if n, ascii := plain([]byte("0123456")); n != 0 || !ascii {
		t.Errorf("%d of 7 bytes, ASCII %v", n, ascii)
	}
	if n, ascii := plain([]byte("0123456789")); n != 8 || !ascii {
		t.Errorf("%d of 10 bytes, ASCII %v", n, ascii)
	}
}
