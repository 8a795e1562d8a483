package contract

import (
	"slices"
	"strings"
	"time"
)

// isoUnit is a unit of ISO 8601 and its letter.
type isoUnit struct {
	letter byte
	unit   time.Duration
}

var (
	isoDays  = []isoUnit{{'W', 7 * day}, {'D', day}}
	isoHours = []isoUnit{{'H', time.Hour}, {'M', time.Minute}, {'S', time.Second}}
)

// isoDuration reads the text after the P of an ISO 8601 duration: weeks and days, and after a T hours, minutes and
// seconds. Only the last number may have a fraction.
func isoDuration(text string) (time.Duration, error) {
	days, hours, timed := strings.Cut(text, "T")
	switch {
	case strings.ContainsAny(days, "YM"):
		return 0, ErrCalendar
	case text == "", timed && hours == "":
		return 0, ErrDuration
	}
	sum, err := isoParts(days, isoDays, !timed)
	if err != nil {
		return 0, err
	}
	rest, err := isoParts(hours, isoHours, true)
	return addSaturated(sum, rest), err
}

// isoParts reads numbers with units; the units come in the given order. last reports that nothing follows the text.
func isoParts(text string, units []isoUnit, last bool) (sum time.Duration, err error) {
	for text != "" {
		whole, rest := cutDigits(text)
		fraction := ""
		broken := rest != "" && (rest[0] == '.' || rest[0] == ',')
		if broken {
			fraction, rest = cutDigits(rest[1:])
		}
		if whole == "" || rest == "" || broken && (fraction == "" || len(rest) > 1 || !last) {
			return 0, ErrDuration
		}
		i := slices.IndexFunc(units, func(u isoUnit) bool { return u.letter == rest[0] })
		if i < 0 {
			return 0, ErrDuration
		}
		sum = addSaturated(sum, addSaturated(timesSaturated(whole, units[i].unit), fractionOf(fraction, units[i].unit)))
		text, units = rest[1:], units[i+1:]
	}
	return sum, nil
}
