package groups

import (
	"math"
	"time"

	"github.com/belfryhq/belfry/internal/lend"
)

const (
	// unknown is how long a new owner may hold back a group that has begun no attempt of late, since its attempts under
	// the earlier owner are not known.
	unknown = 10 * time.Second
	burst   = 100 * time.Millisecond // a group that has rested begins the attempts of this long at once
	portion = 50 * time.Millisecond  // a fast group gets the permits of this long together, so that it makes few rounds
)

// Portion returns the number of permits that a shard holds at most for a group with a rate.
func Portion(perSecond float64) int { return max(int(perSecond*portion.Seconds()), 1) }

// Life returns how long a permit of a group with a rate may wait for a place at its receiver. The attempts of a longer
// time would begin at once when the receiver has places again. The next permit comes by then.
func Life(perSecond float64) time.Duration {
	return time.Duration(float64(time.Second) * max(1/perSecond, 1))
}

// pace keeps the rate of each group of a queue. A permit takes a token from its group's bucket, which is forgotten when
// it is full again.
type pace struct {
	begun     time.Time // of the owner's leadership
	heard     time.Time // first round in which all shards answered, and from which on they refuse an earlier owner
	perSecond float64   // 0: no limit
	buckets   map[string]*lend.Bucket
	most      int                  // number of buckets from which on full ones are looked for
	short     map[string]time.Time // groups that want permits, and when they have tokens again
}

func newPace(begun time.Time) pace {
	return pace{begun: begun, buckets: map[string]*lend.Bucket{}, short: map[string]time.Time{}}
}

// set changes the rate of all groups.
func (p *pace) set(now time.Time, perSecond float64) {
	if perSecond == p.perSecond {
		return
	}
	p.perSecond = perSecond
	if perSecond == 0 {
		clear(p.buckets)
	}
	for _, b := range p.buckets {
		b.Set(now, perSecond)
	}
	for group := range p.short {
		p.short[group] = now
	}
}

// free returns the number of permits that the rate leaves a group, at most a burst. If there are too few, it notes when
// the group has enough.
func (p *pace) free(now time.Time, group string) int {
	if p.heard.IsZero() {
		p.heard = now
	}
	if p.perSecond == 0 {
		return math.MaxInt
	}
	b := p.bucket(now, group)
	least := Portion(p.perSecond)
	if b.Whole() >= least {
		return b.Whole()
	}
	p.short[group] = now.Add(b.Until(least))
	return 0
}

// bucket returns the bucket of a group, filled up to now.
func (p *pace) bucket(now time.Time, group string) *lend.Bucket {
	b := p.buckets[group]
	if b == nil {
		p.forget(now)
		made := lend.NewBucket(p.heard, 0, p.perSecond, burst)
		if now.Sub(p.begun) >= unknown {
			made.Take(-1)
		}
		b = &made
		p.buckets[group] = b
	}
	b.Fill(now)
	return b
}

// forget removes full buckets, once there are twice as many buckets as the last time.
func (p *pace) forget(now time.Time) {
	if len(p.buckets) < p.most {
		return
	}
	for group, b := range p.buckets {
		if b.Fill(now); b.IsFull() {
			delete(p.buckets, group)
		}
	}
	p.most = max(2*len(p.buckets), 1024)
}

// take takes the tokens of permits that a group gets.
func (p *pace) take(group string, n int) {
	if b := p.buckets[group]; b != nil {
		b.Take(n)
	}
}

// giveBack gives back the tokens of permits that begin no attempt.
func (p *pace) giveBack(now time.Time, unused []Want) {
	for _, w := range unused {
		p.take(w.Group, -w.Permits)
		if _, waits := p.short[w.Group]; waits {
			p.short[w.Group] = now
		}
	}
}

// wake adds the groups that have tokens again to a set.
func (p *pace) wake(now time.Time, to map[string]bool) {
	for group, at := range p.short {
		if !at.After(now) {
			to[group] = true
			delete(p.short, group)
		}
	}
}

// next returns the pause until a group has tokens again, at most poll.
func (p *pace) next(now time.Time) time.Duration {
	pause := poll
	for _, at := range p.short {
		pause = min(pause, max(at.Sub(now), time.Millisecond))
	}
	return pause
}

// isIdle reports whether nothing is left to know of any group.
func (p *pace) isIdle(now time.Time) bool {
	p.most = 0
	p.forget(now)
	return len(p.buckets) == 0
}
