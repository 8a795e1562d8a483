package headroom

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Amount is a number of bytes, or a percentage of a total.
type Amount struct {
	bytes   uint64
	percent float64 // used if not 0
}

// units are the units that FormatBytes writes, by rising size, and then further ones that ParseAmount reads.
var units = []struct {
	suffix string
	bytes  float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"PiB", 1 << 50},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1},
}

// binaryUnits is the number of the units that FormatBytes writes.
const binaryUnits = 5

// ParseAmount reads a percentage below 100 ("5%") or a number of bytes ("256MiB", "1.5GB", "4096").
func ParseAmount(text string) (Amount, error) {
	wrong := fmt.Errorf("%q is neither a percentage (5%%) nor a number of bytes (256MiB)", text)
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		n, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(n >= 0 && n < 100) {
			return Amount{}, wrong
		}
		return Amount{percent: n}, nil
	}
	for _, unit := range units {
		number, ok := strings.CutSuffix(text, unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || !(n >= 0) || n*unit.bytes >= math.MaxInt64 {
			return Amount{}, wrong
		}
		return Amount{bytes: uint64(n * unit.bytes)}, nil
	}
	return Amount{}, wrong
}

// ParseBytes reads a number of bytes ("256MiB", "1.5GB", "4096").
func ParseBytes(text string) (int64, error) {
	a, err := ParseAmount(text)
	if err != nil || strings.HasSuffix(text, "%") {
		return 0, fmt.Errorf("%q is no number of bytes (256MiB)", text)
	}
	return int64(a.bytes), nil
}

// Of returns the amount in bytes; a percentage is a part of total.
func (a Amount) Of(total uint64) uint64 {
	if a.percent > 0 {
		return uint64(float64(total) * a.percent / 100)
	}
	return a.bytes
}

// String returns a text that ParseAmount reads.
func (a Amount) String() string {
	if a.percent > 0 {
		return strconv.FormatFloat(a.percent, 'g', -1, 64) + "%"
	}
	return FormatBytes(a.bytes)
}

// FormatBytes writes a number of bytes for people, rounded to a tenth of its unit, as ParseAmount reads it. A negative
// number is written as 0.
func FormatBytes[N int | int64 | uint64 | float64](bytes N) string {
	b := max(float64(bytes), 0)
	for i := binaryUnits - 1; i >= 0; i-- {
		if unit := units[i]; b >= unit.bytes {
			return strconv.FormatFloat(math.Round(b/unit.bytes*10)/10, 'f', -1, 64) + unit.suffix
		}
	}
	return strconv.FormatFloat(math.Round(b), 'f', -1, 64) + "B"
}
