package disk

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Space is the room on a file system, in bytes.
type Space struct {
	Free  uint64 // for a process without privileges
	Total uint64
}

// Reserve is how much of a disk is to stay free. The zero value is the default one.
type Reserve struct {
	bytes   uint64
	percent float64 // used if not 0
	given   bool
}

// Defaults.
const (
	defaultBytes   = 1 << 30
	defaultPercent = 5
	leastToStart   = 4 << 20
)

// None keeps nothing free: a disk is never low.
func None() Reserve { return Reserve{given: true} }

// Bytes keeps that many bytes free.
func Bytes(n uint64) Reserve { return Reserve{bytes: n, given: true} }

var units = []struct {
	suffix string
	bytes  float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1},
}

// Parse reads what Reserve.String writes: "5%", "256MiB", "1.5GB", "0" for none, "" for the default.
func Parse(text string) (Reserve, error) {
	if text == "" {
		return Reserve{}, nil
	}
	wrong := fmt.Errorf("%q is neither a percentage (5%%) nor a number of bytes (256MiB)", text)
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		n, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(n >= 0 && n < 100) {
			return Reserve{}, wrong
		}
		return Reserve{percent: n, given: true}, nil
	}
	for _, unit := range units {
		number, ok := strings.CutSuffix(text, unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || !(n >= 0) || n*unit.bytes >= math.MaxInt64 {
			return Reserve{}, wrong
		}
		return Bytes(uint64(n * unit.bytes)), nil
	}
	return Reserve{}, wrong
}

// Of is the reserve of a disk of this size, in bytes.
func (r Reserve) Of(total uint64) uint64 {
	switch {
	case !r.given:
		return min(defaultBytes, uint64(float64(total)*defaultPercent/100))
	case r.percent > 0:
		return uint64(float64(total) * r.percent / 100)
	}
	return r.bytes
}

// Starts tells whether there is so much room that a node may begin. It will have to write before
// it can make room, and one that began with nothing would end, and be started, again and again.
func (r Reserve) Starts(s Space) bool { return s.Free >= r.ToStart(s.Total) }

// ToStart is how many bytes must be free for a node to begin: half of the reserve, and without one enough for a segment
// of a log.
func (r Reserve) ToStart(total uint64) uint64 { return max(r.Of(total)/2, leastToStart) }

// ends is how many bytes must be free for a disk that was low to be so no longer.
func (r Reserve) ends(total uint64) uint64 { return r.Of(total) / 4 * 5 }

func (r Reserve) String() string {
	switch {
	case !r.given:
		return fmt.Sprintf("the less of %s and %d%%", Size(defaultBytes), defaultPercent)
	case r.percent > 0:
		return strconv.FormatFloat(r.percent, 'g', -1, 64) + "%"
	}
	return Size(r.bytes)
}

// Size is a number of bytes for people.
func Size(n uint64) string {
	for i := 3; i >= 0; i-- {
		if unit := units[i]; float64(n) >= unit.bytes {
			return strconv.FormatFloat(math.Round(float64(n)/unit.bytes*10)/10, 'f', -1, 64) + unit.suffix
		}
	}
	return strconv.FormatUint(n, 10) + "B"
}
