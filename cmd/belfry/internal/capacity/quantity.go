package capacity

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

type suffix struct {
	text  string
	times float64
}

var (
	countSuffixes = []suffix{{"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"B", 1e9}, {"", 1}}
	byteSuffixes  = []suffix{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
		{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1},
	}
)

// ParseCount parses a number such as 1000, 200k, 1.5M or 1e9.
func ParseCount(text string) (float64, error) {
	return parse(text, countSuffixes, "a number such as 1000, 200k, 1.5M or 1e9")
}

// ParseBytes parses a size in bytes such as 300, 2KiB, 64GiB or 500GB.
func ParseBytes(text string) (float64, error) {
	return parse(text, byteSuffixes, "a size such as 300, 2KiB, 64GiB or 500GB")
}

func parse(text string, suffixes []suffix, form string) (float64, error) {
	for _, s := range suffixes {
		number, ok := strings.CutSuffix(text, s.text)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err == nil && !math.IsNaN(n) && !math.IsInf(n, 0) {
			return n * s.times, nil
		}
	}
	return 0, fmt.Errorf("%q is not %s", text, form)
}
