package lend

import (
	"cmp"
	"math"
	"time"
)

// bucket is a token bucket: perSecond tokens a second in the long run, and those of burst at once, but at least one. It
// reads no clock.
type bucket struct {
	perSecond float64
	burst     time.Duration
	tokens    float64 // -most() <= tokens <= most()
	at        time.Time
}

// newBucket returns a bucket that has filled since an instant, when it had the tokens of a tenth of a second.
func newBucket(now, since time.Time, perSecond float64, burst time.Duration) bucket {
	b := bucket{perSecond: perSecond, burst: burst, tokens: max(perSecond/10, 1), at: since}
	b.fill(now)
	return b
}

// most returns the largest number of tokens.
func (b *bucket) most() float64 { return max(b.perSecond*b.burst.Seconds(), 1) }

func (b *bucket) fill(now time.Time) {
	if d := now.Sub(b.at); d > 0 {
		b.tokens = min(b.tokens+d.Seconds()*b.perSecond, b.most())
		b.at = now
	}
}

// set changes the rate. The bucket's tokens of a higher rate go down to the new burst.
func (b *bucket) set(now time.Time, perSecond float64) {
	b.fill(now)
	b.perSecond = perSecond
	b.tokens = max(min(b.tokens, b.most()), -b.most())
}

// charge takes tokens that were spent already. A debt is at most one burst.
func (b *bucket) charge(n float64) { b.tokens = max(b.tokens-n, -b.most()) }

// rounding forgives the part of a token that floating point loses.
const rounding = 1e-6

// whole returns the number of whole tokens.
func (b *bucket) whole() int { return max(int(b.tokens+rounding), 0) }

func (b *bucket) isFull() bool { return b.tokens >= b.most()-rounding }

// untilNext returns the time from the last fill until the bucket has a whole token; 0: it has one.
func (b *bucket) untilNext() time.Duration {
	missing := max(1-b.tokens, 0) / b.perSecond
	return time.Duration(math.Ceil(min(missing, 1e6) * float64(time.Second)))
}

// demand measures a rate over the last tenths of a second, or over a longer window.
type demand struct {
	window time.Duration // 0: usualWindow
	since  time.Time
	n      int     // since then
	rate   float64 // before, a second
}

// usualWindow is the length of one measurement.
const usualWindow = 100 * time.Millisecond

func (d *demand) add(now time.Time, n int) {
	d.turn(now)
	d.n += n
}

// turn ends the measurement that is over.
func (d *demand) turn(now time.Time) {
	window := cmp.Or(d.window, usualWindow)
	switch past := now.Sub(d.since); {
	case past >= 10*window:
		d.rate, d.n, d.since = 0, 0, now
	case past >= window:
		d.rate, d.n, d.since = float64(d.n)/past.Seconds(), 0, now
	}
}

func (d *demand) perSecond(now time.Time) float64 {
	d.turn(now)
	return max(d.rate, float64(d.n)/cmp.Or(d.window, usualWindow).Seconds())
}
