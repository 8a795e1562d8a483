package client

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	errDuration = errors.New(`must be numbers with units, like "500ms", "1h30m", "48h" or "7d" ` +
		`(units: ns, us, ms, s, m, h, d), or of ISO 8601, like "PT30M" or "P2D"`)
	errCalendar = errors.New("must have neither years nor months, whose lengths vary: say weeks, days or less")
)

const day = 24 * time.Hour

// ParseDuration reads a duration as the service does: as Go writes them, with d for days of 24 hours ("7d", "1.5d",
// "1d12h"), or as ISO 8601 does ("PT30M", "P2D", "P1W"; no years and no months). Finer ones than nanoseconds are
// rounded up; one that is too long for a time.Duration comes back as the longest there is, which the service refuses
// by its limit.
func ParseDuration(text string) (time.Duration, error) {
	rest, negative := text, false
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		rest, negative = rest[1:], rest[0] == '-'
	}
	if rest == "0" {
		return 0, nil
	}
	sum, err := unsigned(rest)
	if err != nil {
		return 0, fmt.Errorf("duration %q %w", text, err)
	}
	if negative {
		sum = -sum
	}
	return sum, nil
}

func unsigned(text string) (sum time.Duration, err error) {
	if iso, ok := strings.CutPrefix(text, "P"); ok {
		return isoDuration(iso)
	}
	if text == "" {
		return 0, errDuration
	}
	for text != "" {
		part, after, err := durationPart(text)
		if err != nil {
			return 0, err
		}
		sum, text = addSaturated(sum, part), after
	}
	return sum, nil
}

// durationPart reads one number with its unit from the beginning of text, and returns what follows it.
func durationPart(text string) (part time.Duration, rest string, err error) {
	whole, rest := cutDigits(text)
	fraction := ""
	if rest != "" && rest[0] == '.' {
		fraction, rest = cutDigits(rest[1:])
	}
	if whole == "" && fraction == "" {
		return 0, "", errDuration
	}
	unit, rest := cutUnit(rest)
	if unit == 0 {
		return 0, "", errDuration
	}
	return addSaturated(timesSaturated(whole, unit), fractionOf(fraction, unit)), rest, nil
}

// fractionOf is 0.digits of a unit in nanoseconds, rounded up: a delay never ends early. It is exact, which a float
// would not be.
func fractionOf(digits string, unit time.Duration) time.Duration {
	const most = 18 // digits that a uint64 holds
	var numerator, denominator uint64 = 0, 1
	for i := range min(len(digits), most) {
		numerator, denominator = numerator*10+uint64(digits[i]-'0'), denominator*10
	}
	hi, lo := bits.Mul64(numerator, uint64(unit))
	quotient, remainder := bits.Div64(hi, lo, denominator)
	if remainder > 0 || len(digits) > most && strings.Trim(digits[most:], "0") != "" {
		quotient++
	}
	return time.Duration(quotient)
}

func cutDigits(text string) (digits, rest string) {
	i := 0
	for i < len(text) && '0' <= text[i] && text[i] <= '9' {
		i++
	}
	return text[:i], text[i:]
}

func cutUnit(text string) (unit time.Duration, rest string) {
	i := 0
	for i < len(text) && text[i] != '.' && (text[i] < '0' || text[i] > '9') {
		i++
	}
	switch text[:i] {
	case "ns":
		unit = time.Nanosecond
	case "us", "µs", "μs":
		unit = time.Microsecond
	case "ms":
		unit = time.Millisecond
	case "s":
		unit = time.Second
	case "m":
		unit = time.Minute
	case "h":
		unit = time.Hour
	case "d":
		unit = day
	}
	return unit, text[i:]
}

func timesSaturated(digits string, unit time.Duration) time.Duration {
	if digits == "" {
		return 0
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > math.MaxInt64/int64(unit) { // digits alone: the only error is the range
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}

func addSaturated(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// isoUnit is a designator of ISO 8601.
type isoUnit struct {
	letter byte
	unit   time.Duration
}

var (
	isoDays  = []isoUnit{{'W', 7 * day}, {'D', day}}
	isoHours = []isoUnit{{'H', time.Hour}, {'M', time.Minute}, {'S', time.Second}}
)

// isoDuration reads what follows the P of a duration of ISO 8601: weeks and days, and after a T hours, minutes and
// seconds. Only the last number may have a fraction.
func isoDuration(text string) (time.Duration, error) {
	days, hours, timed := strings.Cut(text, "T")
	switch {
	case strings.ContainsAny(days, "YM"):
		return 0, errCalendar
	case text == "", timed && hours == "":
		return 0, errDuration
	}
	sum, err := isoParts(days, isoDays, !timed)
	if err != nil {
		return 0, err
	}
	rest, err := isoParts(hours, isoHours, true)
	return addSaturated(sum, rest), err
}

// isoParts reads numbers with units, which come in this order. last: nothing follows the text.
func isoParts(text string, units []isoUnit, last bool) (sum time.Duration, err error) {
	for text != "" {
		whole, rest := cutDigits(text)
		fraction := ""
		broken := rest != "" && (rest[0] == '.' || rest[0] == ',')
		if broken {
			fraction, rest = cutDigits(rest[1:])
		}
		if whole == "" || rest == "" || broken && (fraction == "" || len(rest) > 1 || !last) {
			return 0, errDuration
		}
		i := slices.IndexFunc(units, func(u isoUnit) bool { return u.letter == rest[0] })
		if i < 0 {
			return 0, errDuration
		}
		sum = addSaturated(sum, addSaturated(timesSaturated(whole, units[i].unit), fractionOf(fraction, units[i].unit)))
		text, units = rest[1:], units[i+1:]
	}
	return sum, nil
}
