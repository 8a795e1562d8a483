package sim

import (
	"math/rand/v2"
	"slices"
	"time"
)

// course is what will break and when, all of it decided beforehand: the load is to be where things break.
type course struct {
	begin    time.Time
	episodes []episode
	moments  []time.Duration // after begin: of each strike and each mending, rising
}

// episode is one to three faults that overlap, all of them mended when it ends.
type episode struct {
	at, until time.Duration // after begin
	strikes   []strike
}

// strike is one fault.
type strike struct {
	kind  kind
	after time.Duration // the episode's beginning
	hold  time.Duration
	seed  uint64 // of its choices
}

// drawCourse makes the course of a run.
func drawCourse(cfg Config, rng *rand.Rand) *course {
	c := &course{}
	var own []kind
	for _, k := range kinds {
		if slices.Contains(cfg.Faults, k.name) {
			own = append(own, k)
		}
	}
	p := cfg.pace
	if len(own) == 0 {
		return c
	}
	for at := between(rng, p.calm); at < cfg.Span; at += p.recovery() + between(rng, p.calm) {
		e := drawEpisode(rng, p, own)
		e.at = at
		at += e.until
		e.until = at
		c.add(e)
	}
	slices.Sort(c.moments)
	return c
}

// drawEpisode makes an episode that begins at 0.
func drawEpisode(rng *rand.Rand, p pace, own []kind) episode {
	var e episode
	for range 1 + max(0, rng.IntN(6)-3) {
		s := strike{kind: own[rng.IntN(len(own))], hold: between(rng, p.hold), seed: rng.Uint64()}
		if len(e.strikes) > 0 {
			s.after = time.Duration(rng.Int64N(int64(e.until)))
		}
		e.strikes = append(e.strikes, s)
		e.until = max(e.until, s.after+s.hold)
	}
	return e
}

func (c *course) add(e episode) {
	c.episodes = append(c.episodes, e)
	for _, s := range e.strikes {
		c.moments = append(c.moments, e.at+s.after, e.at+s.after+s.hold)
	}
}
