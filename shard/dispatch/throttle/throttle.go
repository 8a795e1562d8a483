package throttle

import "time"

// Config is common to all receivers.
type Config struct {
	Start, Max         int           // of the window, in attempts; 1 <= Start <= Max
	Trip               int           // failures in a row that open the breaker; at least 1
	MinPause, MaxPause time.Duration // between probes of an open breaker; MaxPause also bounds what a receiver may ask for
}

// Default returns the configuration in use unless an operator chooses another.
func Default() Config {
	return Config{Start: 16, Max: 512, Trip: 32, MinPause: 250 * time.Millisecond, MaxPause: 10 * time.Second}
}

// Ending is how one attempt ended.
type Ending struct {
	Delivered  bool
	TimedOut   bool          // not delivered, and because the receiver took too long
	Took       time.Duration // from its start
	RetryAfter time.Duration // the receiver's wish to be left alone; 0: none
	Full       bool          // all of the window was in use
}

// Throttle is the record of one receiver. New makes one; the zero value is not usable.
type Throttle struct {
	window float64 // 1 <= window <= Max
	steady bool    // it has met a limit: grow slowly
	run    int     // failures since the last success
	proven bool    // it has succeeded

	open  bool
	pause time.Duration // between the last two probes
	until time.Time     // nothing begins before

	best   fastest       // how long a success takes at best,
	recent time.Duration // and lately
	strain bool          // answers were slow in this spell
}

// New returns the record of a receiver that has not been tried.
func New(cfg Config) Throttle { return Throttle{window: float64(cfg.Start)} }

// Room returns how many more attempts may begin now, and, if none may because the receiver is left alone, until when.
func (t *Throttle) Room(now time.Time, inFlight int) (room int, until time.Time) {
	switch {
	case now.Before(t.until):
		return 0, t.until
	case t.open && inFlight > 0:
		return 0, time.Time{}
	case t.open:
		return 1, time.Time{}
	}
	return max(int(t.window)-inFlight, 0), time.Time{}
}

// Open reports whether the breaker is open.
func (t *Throttle) Open() bool { return t.open }

// IsWell reports whether the receiver's last answer was a success.
func (t *Throttle) IsWell() bool { return t.proven && t.run == 0 }

// Window is how many attempts may be under way while the breaker is closed.
func (t *Throttle) Window() int { return int(t.window) }

// Fresh reports whether t may be forgotten: New would return the same.
func (t *Throttle) Fresh(cfg Config, now time.Time) bool {
	return !t.open && t.run == 0 && int(t.window) == cfg.Start && !now.Before(t.until)
}

// End notes how an attempt ended.
func (t *Throttle) End(cfg Config, now time.Time, e Ending) {
	if e.Delivered {
		t.succeed(cfg, now, e)
	} else {
		t.fail(cfg, now, e)
	}
}

const slowStep = 0.125 // of the window, for each success

func (t *Throttle) succeed(cfg Config, now time.Time, e Ending) {
	t.run, t.proven = 0, true
	if t.open {
		t.open, t.pause, t.until = false, 0, time.Time{}
		t.steady = false
	}
	t.measure(cfg, now, e.Took)
	slow := t.slowed()
	t.steady, t.strain = t.steady || slow, t.strain || slow
	switch {
	case slow && t.window > cfg.floor():
		t.window = max(t.window-slowStep, cfg.floor())
	case slow || !e.Full:
	case t.steady:
		t.window = min(t.window+slowStep, float64(cfg.Max))
	default:
		t.window = min(t.window+1, float64(cfg.Max))
	}
}

// floor is what slow answers alone leave of the window: that a receiver is slow is no failure.
func (c Config) floor() float64 { return float64(max(c.Start/4, 1)) }

func (t *Throttle) fail(cfg Config, now time.Time, e Ending) {
	t.run++
	t.steady = true
	step := 1.0
	if e.TimedOut {
		step = 2
	}
	t.window = max(t.window-step, 1)
	if e.RetryAfter > 0 {
		t.leaveAlone(now, min(e.RetryAfter, cfg.MaxPause))
	}
	if t.run >= cfg.Trip && !now.Before(t.until) { // what fails during a pause is no probe
		t.open = true
		t.window = 1
		t.pause = min(max(2*t.pause, cfg.MinPause), cfg.MaxPause)
		t.until = now.Add(t.pause)
	}
}

// leaveAlone lets nothing begin for a while, and then less than before.
func (t *Throttle) leaveAlone(now time.Time, d time.Duration) {
	if !now.Before(t.until) {
		t.window = max(t.window/2, 1)
	}
	if until := now.Add(d); until.After(t.until) {
		t.until = until
	}
}

// Answers are slow when lately they took twice as long as at best, and this much more on top.
const slowAnswer = 3 * time.Millisecond

func (t *Throttle) slowed() bool { return t.recent > 2*t.best.get()+slowAnswer }

// measure takes the time of a success. When a spell with slow answers is over, the window begins low again: else the
// answers of a crowded receiver would become the measure of speed.
func (t *Throttle) measure(cfg Config, now time.Time, took time.Duration) {
	if t.recent == 0 {
		t.recent = took
	}
	t.recent += (took - t.recent) / 8
	if t.best.add(now, took) && t.strain {
		t.window, t.steady, t.strain = min(t.window, cfg.floor()), false, false
	}
}

// spell is the shortest time for which the fastest answer is remembered. It is forgotten after two spells, since a
// receiver may have become slower.
const spell = time.Minute

// fastest is the shortest time of the current spell and of the one before.
type fastest struct {
	since           time.Time
	current, before time.Duration
}

// add notes an answer's time. It reports whether a spell begins with it.
func (f *fastest) add(now time.Time, took time.Duration) (begins bool) {
	age := now.Sub(f.since)
	if begins = age >= spell; begins {
		f.before, f.current, f.since = f.current, took, now
	}
	if age >= 2*spell {
		f.before = took
	}
	f.current = min(f.current, took)
	return begins
}

func (f *fastest) get() time.Duration { return min(f.current, f.before) }
