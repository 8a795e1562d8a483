package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// Recorder records a run, in memory and optionally as JSON lines. It is safe for concurrent use.
type Recorder struct {
	base time.Time
	wall Instant // base as the machine's clock showed it

	mu     sync.Mutex    // guards the fields below
	file   io.Closer     // closed by Close; nil: none
	out    *bufio.Writer // nil: the run is recorded in memory only
	enc    *json.Encoder
	failed error // error of the first failed write; no write follows it
	h      History
	ops    int64
	names  map[string]string // interned strings, since many repeat
}

// line is one event of a recorded file. Exactly one of its pointers, or Stage, is set.
type line struct {
	At      Instant  `json:"at"`
	N       int      `json:"n,omitempty"` // number among the records of its kind
	Call    *Call    `json:"call,omitempty"`
	End     *Ending  `json:"end,omitempty"`
	Arrival *Arrival `json:"arrival,omitempty"`
	Fault   *Fault   `json:"fault,omitempty"`
	Stage   string   `json:"stage,omitempty"` // of fault N: mending or mended; of entry N: ending, rotating or ended
	Term    *Term    `json:"term,omitempty"`
	Owner   *Owner   `json:"owner,omitempty"`
	Replica *Replica `json:"replica,omitempty"`
	Entry   *Entry   `json:"entry,omitempty"`
	Trial   *Trial   `json:"trial,omitempty"`
	Roll    *Roll    `json:"roll,omitempty"`

	ScheduleCall *ScheduleCall `json:"schedule_call,omitempty"`
	Tally        *Tally        `json:"tally,omitempty"`
}

const fileBuffer = 256 << 10

// NewRecorder returns a recorder that writes to w, or only records in memory if w is nil. The caller keeps ownership of
// w.
func NewRecorder(w io.Writer) *Recorder {
	now := time.Now()
	r := &Recorder{base: now, wall: At(now), names: map[string]string{}}
	if w != nil {
		r.out = bufio.NewWriterSize(w, fileBuffer)
		r.enc = json.NewEncoder(r.out)
	}
	return r
}

// Create returns a recorder that writes to a new file at path. Close closes the file.
func Create(path string) (*Recorder, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	r := NewRecorder(f)
	r.file = f
	return r, nil
}

// Now returns the current instant of the run's clock.
func (r *Recorder) Now() Instant { return r.Instant(time.Now()) }

// Instant converts t, which must be a reading of time.Now, to an instant of the run's clock.
func (r *Recorder) Instant(t time.Time) Instant { return r.wall.Add(t.Sub(r.base)) }

// NextOp returns the next free operation number. The first is 1.
func (r *Recorder) NextOp() int64 { return r.NextOps(1) }

// NextOps reserves n consecutive operation numbers and returns the first.
func (r *Recorder) NextOps(n int) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.ops + 1
	r.ops += int64(n)
	return first
}

// Begin records that the calls of one request start now. It returns the number of the first call. The others are
// numbered consecutively from there.
func (r *Recorder) Begin(calls ...Call) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, now := len(r.h.Calls), r.Now()
	for i := range calls {
		c := calls[i]
		c.Start, c.ID, c.Node = now, r.name(c.ID), r.name(c.Node)
		r.h.Calls = append(r.h.Calls, c)
		r.write(line{At: now, N: first + i, Call: &c})
	}
	return first
}

// End records that call n was answered or given up now.
func (r *Recorder) End(n int, outcome Outcome, a Answer) {
	r.EndAll(n, []Ending{{Outcome: outcome, Answer: a}})
}

// EndAll records that the calls numbered from first on were answered or given up now, one for each ending.
func (r *Recorder) EndAll(first int, endings []Ending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Now()
	for i := range endings {
		e := endings[i]
		a := &e.Answer
		a.State, a.Previous, a.Cancel = r.name(a.State), r.name(a.Previous), r.name(a.Cancel)
		a.Error = r.name(a.Error)
		c := &r.h.Calls[first+i]
		c.End, c.Outcome, c.Answer = now, e.Outcome, e.Answer
		r.write(line{At: now, N: first + i, End: &e})
	}
}

// Arrive records arrivals, those of occurrences and of follow-ups apart. The caller has set their instants.
func (r *Recorder) Arrive(arrivals ...Arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range arrivals {
		a := arrivals[i]
		a.ID, a.WebhookID = r.name(a.ID), r.name(a.WebhookID)
		if _, _, ok := FollowedBy(a.ID); ok {
			r.h.FollowUps = append(r.h.FollowUps, a)
		} else if _, ok := ScheduleOf(a.ID); ok {
			r.h.Occurrences = append(r.h.Occurrences, a)
		} else {
			r.h.Arrivals = append(r.h.Arrivals, a)
		}
		r.write(line{At: a.At, Arrival: &a})
	}
}

// Strike records that fault f strikes now, and returns the fault's number.
func (r *Recorder) Strike(f Fault) int { return add(r, &r.h.Faults, &f, &f.Struck, line{Fault: &f}) }

// Mending records that the mending of fault n begins now.
func (r *Recorder) Mending(n int) {
	r.stage(n, "mending", func(at Instant) { r.h.Faults[n].Mending = at })
}

// Mended records that fault n is mended now.
func (r *Recorder) Mended(n int) {
	r.stage(n, "mended", func(at Instant) { r.h.Faults[n].Mended = at })
}

// Term records an observation of a shard's term, made now.
func (r *Recorder) Term(t Term) { add(r, &r.h.Terms, &t, &t.At, line{Term: &t}) }

// Owner records that a shard is seen now to own a range of slots for the first time.
func (r *Recorder) Owner(o Owner) { add(r, &r.h.Owners, &o, &o.At, line{Owner: &o}) }

// Replica records a replica's position, read now.
func (r *Recorder) Replica(p Replica) { add(r, &r.h.Replicas, &p, &p.At, line{Replica: &p}) }

// Enter records that an entry's making was acknowledged now, and returns the entry's number.
func (r *Recorder) Enter(e Entry) int { return add(r, &r.h.Entries, &e, &e.Made, line{Entry: &e}) }

// Ending records that a call starts now that may end entry n. rotated is set if the call makes another text.
func (r *Recorder) Ending(n int, rotated bool) {
	stage := "ending"
	if rotated {
		stage = "rotating"
	}
	r.stage(n, stage, func(at Instant) { r.h.Entries[n].Ending, r.h.Entries[n].Rotated = at, rotated })
}

// Ended records that the end of entry n was acknowledged now.
func (r *Recorder) Ended(n int) { r.stage(n, "ended", func(at Instant) { r.h.Entries[n].Ended = at }) }

// Try records a trial whose answer came now.
func (r *Recorder) Try(t Trial) { add(r, &r.h.Trials, &t, &t.End, line{Trial: &t}) }

// List records a list whose answer came now.
func (r *Recorder) List(l Roll) { add(r, &r.h.Rolls, &l, &l.End, line{Roll: &l}) }

// CalledSchedule records an operation about a schedule that is over now.
func (r *Recorder) CalledSchedule(c ScheduleCall) {
	add(r, &r.h.ScheduleCalls, &c, &c.End, line{ScheduleCall: &c})
}

// Tally records a schedule at the end of a run, read now.
func (r *Recorder) Tally(t Tally) { add(r, &r.h.Tallies, &t, &t.At, line{Tally: &t}) }

// add adds a record to its list, with the present instant in at, and returns its number there. l is its line.
func add[T any](r *Recorder, to *[]T, one *T, at *Instant, l line) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*at, n = r.Now(), len(*to)
	*to = append(*to, *one)
	l.At, l.N = *at, n
	r.write(l)
	if l.Fault != nil {
		r.flush()
	}
	return n
}

// stage records that record n reaches a stage now. set sets the instant.
func (r *Recorder) stage(n int, stage string, set func(at Instant)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.Now()
	set(at)
	r.write(line{At: at, N: n, Stage: stage})
}

// View calls see with the record so far, without copying it. Recording waits until see returns. see must not retain any
// part of the record.
func (r *Recorder) View(see func(h *History)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	see(&r.h)
}

// History returns a copy of the record so far.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &History{
		Calls: slices.Clone(r.h.Calls), Arrivals: slices.Clone(r.h.Arrivals), Faults: slices.Clone(r.h.Faults),
		Terms: slices.Clone(r.h.Terms), Owners: slices.Clone(r.h.Owners), Replicas: slices.Clone(r.h.Replicas),
		Entries: slices.Clone(r.h.Entries), Trials: slices.Clone(r.h.Trials), Rolls: slices.Clone(r.h.Rolls),
		Occurrences: slices.Clone(r.h.Occurrences), ScheduleCalls: slices.Clone(r.h.ScheduleCalls),
		Tallies: slices.Clone(r.h.Tallies), FollowUps: slices.Clone(r.h.FollowUps),
	}
}

// Close flushes the record, and closes the file if Create opened it. Close returns the error of the first failed write,
// if any, joined with that of closing the file.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flush()
	err := r.failed
	if r.file != nil {
		err = errors.Join(err, r.file.Close())
		r.file = nil
	}
	return err
}

func (r *Recorder) name(s string) string {
	if known, ok := r.names[s]; ok {
		return known
	}
	r.names[s] = s
	return s
}

func (r *Recorder) write(l line) {
	if r.failed == nil && r.enc != nil {
		r.failed = r.enc.Encode(l)
	}
}

func (r *Recorder) flush() {
	if r.failed == nil && r.out != nil {
		r.failed = r.out.Flush()
	}
}
