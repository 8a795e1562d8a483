package sim

import (
	"math/rand/v2"
	"slices"
	"time"
)

// course lists the faults of a run and their times. All of it is drawn before the load, so that the load can aim at
// the faults.
type course struct {
	begin    time.Time
	episodes []episode
	shifts   []shift         // operations on slots, in rising order
	moments  []time.Duration // after begin: of each strike and each mending, in rising order
}

// episode is one to three faults that overlap. All of them are mended when it ends.
type episode struct {
	at, until time.Duration // after begin
	strikes   []strike
}

// strike is one fault of an episode.
type strike struct {
	kind  kind
	after time.Duration // after the episode's beginning
	hold  time.Duration
	seed  uint64 // of the fault's own choices
}

// drawCourse draws the course of a run.
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

// drawEpisode draws an episode that begins at 0, from the kinds in own.
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
