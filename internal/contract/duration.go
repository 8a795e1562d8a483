package contract

import (
	"errors"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// The errors of ParseDuration.
var (
	ErrDuration = errors.New(`must be a duration: numbers with units, like "500ms", "1h30m", "48h" or "7d" ` +
		`(units: ns, us, ms, s, m, h, d), or one of ISO 8601, like "PT30M" or "P2D"`)
	ErrCalendar = errors.New("must have neither years nor months, whose lengths vary: say weeks, days or less")
)

const day = 24 * time.Hour

// ParseDuration reads a duration in Go's format, with d for days of 24 hours ("1d12h"), or in the format of ISO 8601
// ("PT30M", "P2D", "P1W"; no years and no months). It rounds parts finer than a nanosecond up. A duration that
// overflows time.Duration becomes the longest possible one, so that the caller's own limit refuses it by name. The
// error is ErrDuration or ErrCalendar.
func ParseDuration(text string) (time.Duration, error) {
	rest, negative := text, false
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		rest, negative = rest[1:], rest[0] == '-'
	}
	if rest == "0" {
		return 0, nil
	}
	if rest == "" {
		return 0, ErrDuration
	}
	sum, err := unsigned(rest)
	if negative {
		sum = -sum
	}
	return sum, err
}

func unsigned(text string) (sum time.Duration, err error) {
	if iso, ok := strings.CutPrefix(text, "P"); ok {
		return isoDuration(iso)
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

// durationPart reads one number with its unit from the beginning of text, and returns the rest of the text.
func durationPart(text string) (part time.Duration, rest string, err error) {
	whole, rest := cutDigits(text)
	fraction := ""
	if rest != "" && rest[0] == '.' {
		fraction, rest = cutDigits(rest[1:])
	}
	if whole == "" && fraction == "" {
		return 0, "", ErrDuration
	}
	unit, rest := cutUnit(rest)
	if unit == 0 {
		return 0, "", ErrDuration
	}
	return addSaturated(timesSaturated(whole, unit), fractionOf(fraction, unit)), rest, nil
}

// fractionOf returns the fraction 0.digits of a unit in nanoseconds, rounded up, so that a delay never ends early. The
// result is exact, unlike a float.
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
	if err != nil || n > math.MaxInt64/int64(unit) { // digits only, so the only error is the range
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

// CeilMs returns a duration in milliseconds, rounded towards positive infinity.
func CeilMs(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// AppendDuration appends a duration, in quotes, in the form that ParseDuration reads: without the zero parts of
// time.Duration.String ("10m", not "10m0s"), and in days for durations longer than 48 hours.
func AppendDuration(b []byte, d time.Duration) []byte {
	b = append(b, '"')
	if d < 0 && d > math.MinInt64 {
		b, d = append(b, '-'), -d
	}
	if d > 48*time.Hour {
		b, d = appendUnit(b, d, day, 'd')
	}
	if d >= time.Hour {
		b, d = appendUnit(b, d, time.Hour, 'h')
	}
	if d >= time.Minute {
		b, d = appendUnit(b, d, time.Minute, 'm')
	}
	if d != 0 || b[len(b)-1] == '"' {
		b = append(b, d.String()...) // the compiler avoids allocating the string
	}
	return append(b, '"')
}

// appendUnit appends the whole units of a duration and returns the remainder.
func appendUnit(b []byte, d, unit time.Duration, letter byte) ([]byte, time.Duration) {
	return append(strconv.AppendInt(b, int64(d/unit), 10), letter), d % unit
}
