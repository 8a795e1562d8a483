package quota

import (
	"math"
	"time"
)

// bucket is a token bucket: perSecond tokens a second in the long run, and those of one second at once. It reads no
// clock.
type bucket struct {
	perSecond float64
	tokens    float64 // -burst <= tokens <= burst
	at        time.Time
}

// newBucket returns a bucket that has filled since an instant, when it had the tokens of a tenth of a second.
func newBucket(now, since time.Time, perSecond float64) bucket {
	b := bucket{perSecond: perSecond, at: since}
	b.tokens = max(perSecond/10, 1)
	b.fill(now)
	return b
}

func (b *bucket) burst() float64 { return max(b.perSecond, 1) }

func (b *bucket) fill(now time.Time) {
	if d := now.Sub(b.at); d > 0 {
		b.tokens = min(b.tokens+d.Seconds()*b.perSecond, b.burst())
		b.at = now
	}
}

// set changes the rate. The bucket's tokens of a higher rate go down to the new burst.
func (b *bucket) set(now time.Time, perSecond float64) {
	b.fill(now)
	b.perSecond = perSecond
	b.tokens = max(min(b.tokens, b.burst()), -b.burst())
}

// charge takes tokens that were spent already. A debt is at most one second's tokens.
func (b *bucket) charge(n float64) { b.tokens = max(b.tokens-n, -b.burst()) }

// rounding forgives the part of a token that floating point loses.
const rounding = 1e-6

// take takes up to n whole tokens.
func (b *bucket) take(n int) int {
	got := max(min(n, int(math.Floor(b.tokens+rounding))), 0)
	b.tokens -= float64(got)
	return got
}

// untilNext returns the time until the bucket has a whole token.
func (b *bucket) untilNext() time.Duration {
	missing := max(1-b.tokens, 0) / b.perSecond
	return time.Duration(math.Ceil(missing * float64(time.Second)))
}
