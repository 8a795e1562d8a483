package lend

import (
	"cmp"
	"math"
	"time"
)

// Bucket is a token bucket: perSecond tokens a second in the long run, and those of burst at once, but at least one. It
// reads no clock.
type Bucket struct {
	perSecond float64
	burst     time.Duration
	tokens    float64 // -most() <= tokens <= most()
	at        time.Time
}

// NewBucket returns a bucket that fills since an instant, when it had some tokens.
func NewBucket(since time.Time, tokens, perSecond float64, burst time.Duration) Bucket {
	return Bucket{perSecond: perSecond, burst: burst, tokens: tokens, at: since}
}

// most returns the largest number of tokens.
func (b *Bucket) most() float64 { return max(b.perSecond*b.burst.Seconds(), 1) }

// Fill adds the tokens of the time since the last call.
func (b *Bucket) Fill(now time.Time) {
	if d := now.Sub(b.at); d > 0 {
		b.tokens = min(b.tokens+d.Seconds()*b.perSecond, b.most())
		b.at = now
	}
}

// Set changes the rate. The bucket's tokens of a higher rate go down to the new burst.
func (b *Bucket) Set(now time.Time, perSecond float64) {
	b.Fill(now)
	b.perSecond = perSecond
	b.tokens = max(min(b.tokens, b.most()), -b.most())
}

// charge takes tokens that were spent already. A debt is at most one burst.
func (b *Bucket) charge(n float64) { b.tokens = max(b.tokens-n, -b.most()) }

// Take takes n tokens, or gives back -n.
func (b *Bucket) Take(n int) { b.tokens -= float64(n) }

// rounding forgives the part of a token that floating point loses.
const rounding = 1e-6

// Whole returns the number of whole tokens.
func (b *Bucket) Whole() int { return max(int(b.tokens+rounding), 0) }

// IsFull reports whether the bucket takes no more tokens, so that a new one is as good.
func (b *Bucket) IsFull() bool { return b.tokens >= b.most()-rounding }

// Until returns the time from the last fill until the bucket has n tokens; 0: it has them.
func (b *Bucket) Until(n int) time.Duration {
	missing := max(float64(n)-b.tokens, 0) / b.perSecond
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
