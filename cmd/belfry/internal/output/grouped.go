package output

import "strconv"

// Grouped returns a number with commas between its thousands: 12,431.
func Grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	first := 0 // digit, behind the sign
	if n < 0 {
		first = 1
	}
	for i := len(text) - 3; i > first; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
