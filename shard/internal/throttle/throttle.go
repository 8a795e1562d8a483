package throttle

import "time"

// Config holds the limits common to all receivers.
type Config struct {
	Start, Max         int           // the window's bounds, in attempts; 1 <= Start <= Max
	Trip               int           // consecutive failures that open the breaker; at least 1
	MinPause, MaxPause time.Duration // between probes of an open breaker; MaxPause also limits a receiver's RetryAfter
}

// Default returns the default limits.
func Default() Config {
	return Config{Start: 16, Max: 512, Trip: 32, MinPause: 250 * time.Millisecond, MaxPause: 10 * time.Second}
}

// Ending describes the end of one attempt.
type Ending struct {
	Delivered  bool
	Refused    bool          // not delivered, and the fault is the task's: it is no failure of the receiver
	TimedOut   bool          // not delivered because the receiver took too long
	Took       time.Duration // time from the attempt's start
	Broker     bool          // Took does not tell of a broker's pace
	RetryAfter time.Duration // the pause that the receiver asks for; 0: none
	Full       bool          // the whole window was in use
	Down       bool          // the receiver fails under all names: this failure opens the breaker
	Alive      bool          // the receiver has lately succeeded under another name: pauses stay short
}

// Throttle is the record of one receiver. New makes one; the zero value is not usable.
type Throttle struct {
	window float64 // 1 <= window <= Max
	steady bool    // the receiver has met a limit: the window grows slowly
	run    int     // failures since the last success
	proven bool    // the receiver has succeeded at least once

	open   bool
	since  time.Time     // the breaker opened
	probes int           // since then
	pause  time.Duration // between the last two probes
	until  time.Time     // no attempt begins before this instant

	best   fastest // the shortest time of a success
	round  round   // the latest successes
	strain bool    // answers of this spell were slow
}

// New returns the record of a receiver without attempts.
func New(cfg Config) Throttle { return Throttle{window: float64(cfg.Start)} }

// Room returns the number of further attempts that may begin now. If there are none because the receiver is left alone,
// until is the end of that pause.
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

// Since returns the instant at which the open breaker opened.
func (t *Throttle) Since() time.Time { return t.since }

// Run returns the number of failures since the last success.
func (t *Throttle) Run() int { return t.run }

// IsWell reports whether the receiver's last answer was a success.
func (t *Throttle) IsWell() bool { return t.proven && t.run == 0 }

// Window returns the number of attempts that may be under way while the breaker is closed.
func (t *Throttle) Window() int { return int(t.window) }

// Fresh reports whether t may be forgotten: the breaker is closed, no failure came since the last success, the window
// is Start, and no pause runs.
func (t *Throttle) Fresh(cfg Config, now time.Time) bool {
	return !t.open && t.run == 0 && int(t.window) == cfg.Start && !now.Before(t.until)
}

// End records the end of an attempt.
func (t *Throttle) End(cfg Config, now time.Time, e Ending) {
	switch {
	case e.Delivered:
		t.succeed(cfg, now, e)
	case e.Refused:
		t.refuse(cfg, now, e)
	default:
		t.fail(cfg, now, e)
	}
}

// Excuse takes back the last n failures, which were not the receiver's. The window starts anew if it has shrunk.
func (t *Throttle) Excuse(cfg Config, n int) {
	t.run = max(t.run-n, 0)
	t.window = max(t.window, float64(cfg.Start))
	t.until = time.Time{}
	if t.run < cfg.Trip {
		t.open, t.pause = false, 0
	}
}

const slowStep = 0.125 // of the window, for each success

func (t *Throttle) succeed(cfg Config, now time.Time, e Ending) {
	t.run, t.proven = 0, true
	if t.open {
		t.open, t.pause, t.until = false, 0, time.Time{}
		t.steady = false
	}
	if !e.Broker {
		t.measure(cfg, now, e.Took)
	}
	slow := t.slowed()
	t.steady, t.strain = t.steady || slow, t.strain || slow
	switch {
	case slow && t.window > cfg.floor():
		t.window = max(t.window-slowStep, cfg.floor())
	case slow && t.window == cfg.floor():
	default:
		t.grow(cfg, e.Full, slow)
	}
}

// grow adds to the window after an answer.
func (t *Throttle) grow(cfg Config, full, slow bool) {
	switch {
	case !full && t.window >= float64(cfg.Start):
	case slow:
		t.window = min(t.window+slowStep, cfg.floor())
	case t.steady:
		t.window = min(t.window+slowStep, float64(cfg.Max))
	default:
		t.window = min(t.window+1, float64(cfg.Max))
	}
}

// refuse records that the receiver answered. The answer neither closes nor opens the breaker, and its time says nothing
// of that of a success.
func (t *Throttle) refuse(cfg Config, now time.Time, e Ending) {
	switch {
	case !t.open:
		t.grow(cfg, e.Full, false)
	case !now.Before(t.until):
		t.until = now.Add(t.pause)
	}
}

// floor returns the smallest window that slow answers alone can cause. A slow receiver has not failed.
func (c Config) floor() float64 { return float64(max(c.Start/4, 1)) }

func (t *Throttle) fail(cfg Config, now time.Time, e Ending) {
	t.run++
	t.steady = true
	step, least := 1.0, float64(cfg.Start)
	if e.TimedOut {
		step = 2
	}
	if e.TimedOut || e.RetryAfter > 0 {
		least = 1
	}
	t.window = max(t.window-step, min(t.window, least))
	if e.RetryAfter > 0 {
		t.leaveAlone(now, min(e.RetryAfter, cfg.MaxPause))
	}
	if (t.run >= cfg.Trip || e.Down) && !now.Before(t.until) { // a failure during a pause is no probe
		t.trip(cfg, now, e.Alive)
	}
}

// Blame adds n failures that came before the first ending.
func (t *Throttle) Blame(cfg Config, now time.Time, n int) {
	if t.run += n; t.run >= cfg.Trip {
		t.trip(cfg, now, false)
	}
}

// probesEach is the number of probes before the pause between them grows. So each kind of task is probed in time.
const probesEach = 3

// trip opens the breaker, or begins its next pause after a failed probe.
func (t *Throttle) trip(cfg Config, now time.Time, alive bool) {
	t.probes++
	if !t.open {
		t.open, t.since, t.probes, t.pause = true, now, 0, cfg.MinPause
	}
	if t.probes == probesEach {
		t.probes, t.pause = 0, min(2*t.pause, cfg.MaxPause)
	}
	if alive {
		t.pause = cfg.MinPause
	}
	t.window = 1
	t.until = now.Add(t.pause)
}

// leaveAlone stops attempts for the duration d. The first call of a pause halves the window.
func (t *Throttle) leaveAlone(now time.Time, d time.Duration) {
	if !now.Before(t.until) {
		t.window = max(t.window/2, 1)
	}
	if until := now.Add(d); until.After(t.until) {
		t.until = until
	}
}

// slowAnswer is added to the bound of slow answers. Answers are slow if all those of the last round took over twice the
// best time plus slowAnswer.
const slowAnswer = 3 * time.Millisecond

func (t *Throttle) slowed() bool { return t.round.fastest > 2*t.best.get()+slowAnswer }

// measure records the time of a success. After a spell with slow answers the window restarts low. Otherwise the answers
// of a crowded receiver would become the measure of speed.
func (t *Throttle) measure(cfg Config, now time.Time, took time.Duration) {
	t.round.add(took)
	if t.best.add(now, took) && t.strain {
		t.window, t.steady, t.strain = min(t.window, cfg.floor()), false, false
	}
}

// round holds the shortest time of each of the last two rounds of answers. A crowded receiver answers nothing quickly,
// while a receiver that needs seconds for a few tasks answers the others as before.
type round struct {
	answers          int // of the current round; 0 <= answers < roundAnswers
	current, fastest time.Duration
}

const roundAnswers = 8

func (r *round) add(took time.Duration) {
	if r.answers == 0 || took < r.current {
		r.current = took
	}
	if r.answers++; r.answers == roundAnswers {
		r.answers, r.fastest = 0, r.current
	}
}

// spell is the shortest time for which the fastest answer is remembered. It is forgotten after two spells, since a
// receiver may have become slower.
const spell = time.Minute

// fastest holds the shortest answer times of the current spell and the one before.
type fastest struct {
	since           time.Time
	current, before time.Duration
}

// add records an answer's time. It reports whether the answer begins a new spell.
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
