package redisapi

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Unit is the unit of scores.
type Unit string

// The units of scores, as Unix time.
const (
	Seconds      Unit = "seconds"
	Milliseconds Unit = "milliseconds"
)

// CheckUnit returns an error for a text that is no unit.
func CheckUnit(text string) error {
	if Unit(text) != Seconds && Unit(text) != Milliseconds {
		return fmt.Errorf("%q is not seconds or milliseconds", text)
	}
	return nil
}

const (
	// otherUnit parts the units: as seconds it is the year 5138, and as milliseconds 1973.
	otherUnit = 1e11
	// lastMs is the last instant of the API, in Unix milliseconds: the end of the year 9999.
	lastMs = 253402300799999
	// fuzz is the part of a millisecond that a binary fraction of seconds may be off.
	fuzz = 0.001
)

var (
	errNotFloat = errors.New("ERR value is not a valid float")
	errNotBound = errors.New("ERR min or max is not a float")
)

// parseFloat reads a number as Redis does.
func parseFloat(text []byte) (float64, bool) {
	f, err := strconv.ParseFloat(string(text), 64)
	return f, (err == nil || errors.Is(err, strconv.ErrRange)) && !math.IsNaN(f) && bytes.IndexByte(text, '_') < 0
}

// ms returns a score in milliseconds, whole if it is meant to be.
func (u Unit) ms(score float64) float64 {
	if u == Milliseconds {
		return score
	}
	ms := score * 1000
	if whole := math.Round(ms); math.Abs(ms-whole) < fuzz {
		return whole
	}
	return ms
}

// due returns the due time of a score, rounded up to milliseconds.
func (u Unit) due(text []byte) (time.Time, error) {
	score, ok := parseFloat(text)
	if !ok {
		return time.Time{}, errNotFloat
	}
	ms := math.Ceil(u.ms(score))
	switch {
	case u == Seconds && score >= otherUnit && !math.IsInf(score, 0):
		return time.Time{}, fmt.Errorf("ERR the score %s is after the year 5000 in seconds: --redis-scores of this node "+
			"must be milliseconds for scores in milliseconds", clip(text))
	case u == Milliseconds && 0 < score && score < otherUnit:
		return time.Time{}, fmt.Errorf("ERR the score %s is before the year 1974 in milliseconds: --redis-scores of this "+
			"node must be seconds for scores in seconds", clip(text))
	case ms < 0 || ms > lastMs:
		return time.Time{}, fmt.Errorf("ERR the score %s is no due time: Unix time in %s, from 1970 to 9999", clip(text), u)
	}
	return time.UnixMilli(int64(ms)).UTC(), nil
}

// score returns the score of a due time.
func (u Unit) score(due time.Time) float64 {
	if u == Milliseconds {
		return float64(due.UnixMilli())
	}
	return float64(due.UnixMilli()) / 1000
}

func scoreText(score float64) string { return strconv.FormatFloat(score, 'f', -1, 64) }

// span is a range of due times; a zero bound is none.
type span struct {
	from, before time.Time
	empty        bool
}

// span reads the bounds of a range of scores.
func (u Unit) span(least, most []byte) (span, error) {
	from, fromOpen, err := u.bound(least)
	if err != nil {
		return span{}, err
	}
	to, toOpen, err := u.bound(most)
	if err != nil {
		return span{}, err
	}
	first, last := math.Ceil(from), math.Floor(to) // whole milliseconds
	if fromOpen && first == from {
		first++
	}
	if toOpen && last == to {
		last--
	}
	s := span{empty: first > last || last < 0 || first > lastMs}
	if first > 0 && !s.empty {
		s.from = time.UnixMilli(int64(first)).UTC()
	}
	if last < lastMs && !s.empty {
		s.before = time.UnixMilli(int64(last) + 1).UTC()
	}
	return s, nil
}

// bound reads a bound of a range, in milliseconds. An open bound is not a part of the range.
func (u Unit) bound(text []byte) (ms float64, open bool, err error) {
	text, open = bytes.CutPrefix(text, []byte("("))
	score, ok := parseFloat(text)
	if !ok {
		return 0, false, errNotBound
	}
	return u.ms(score), open, nil
}
