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

// Recorder takes a run down. It is safe for concurrent use.
type Recorder struct {
	base time.Time
	wall Instant // base on the machine's clock

	mu     sync.Mutex    // guards what follows
	file   io.Closer     // nil: none is to be closed
	out    *bufio.Writer // nil: nothing is written
	enc    *json.Encoder
	failed error // the first failed write; nothing is written after it
	h      History
	ops    int64
	names  map[string]string // one copy of each string that comes again and again
}

const fileBuffer = 256 << 10

// NewRecorder records to w, and into memory alone if that is nil.
func NewRecorder(w io.Writer) *Recorder {
	now := time.Now()
	r := &Recorder{base: now, wall: At(now), names: map[string]string{}}
	if w != nil {
		r.out = bufio.NewWriterSize(w, fileBuffer)
		r.enc = json.NewEncoder(r.out)
	}
	return r
}

// Create records to a new file.
func Create(path string) (*Recorder, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	r := NewRecorder(f)
	r.file = f
	return r, nil
}

// Now reads the run's clock.
func (r *Recorder) Now() Instant { return r.Instant(time.Now()) }

// Instant is when t was, a reading of time.Now.
func (r *Recorder) Instant(t time.Time) Instant { return r.wall.Add(t.Sub(r.base)) }

// NextOp numbers an operation.
func (r *Recorder) NextOp() int64 { return r.NextOps(1) }

// NextOps numbers n operations in a row, and returns the first number.
func (r *Recorder) NextOps(n int) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.ops + 1
	r.ops += int64(n)
	return first
}

// Begin records that calls start now, all in one request, and returns the number of the first; the others follow it.
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

// End records that call n is answered now, or given up.
func (r *Recorder) End(n int, outcome Outcome, a Answer) {
	r.EndAll(n, []Ending{{Outcome: outcome, Answer: a}})
}

// EndAll records that the calls from number first on are answered now, or given up.
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

// Arrive records arrivals, whose instants are set.
func (r *Recorder) Arrive(arrivals ...Arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range arrivals {
		a := arrivals[i]
		a.ID, a.WebhookID = r.name(a.ID), r.name(a.WebhookID)
		r.h.Arrivals = append(r.h.Arrivals, a)
		r.write(line{At: a.At, Arrival: &a})
	}
}

// Strike records that a fault begins now, and returns its number.
func (r *Recorder) Strike(f Fault) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.Struck = r.Now()
	r.h.Faults = append(r.h.Faults, f)
	n := len(r.h.Faults) - 1
	r.write(line{At: f.Struck, N: n, Fault: &f})
	r.flush()
	return n
}

// Mending records that the mending of fault n begins now.
func (r *Recorder) Mending(n int) {
	r.mend(n, "mending", func(f *Fault, at Instant) { f.Mending = at })
}

// Mended records that fault n is mended now.
func (r *Recorder) Mended(n int) {
	r.mend(n, "mended", func(f *Fault, at Instant) { f.Mended = at })
}

func (r *Recorder) mend(n int, stage string, set func(*Fault, Instant)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.Now()
	set(&r.h.Faults[n], at)
	r.write(line{At: at, N: n, Stage: stage})
}

// Term records that a new term of a shard is seen now.
func (r *Recorder) Term(t Term) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.At = r.Now()
	r.h.Terms = append(r.h.Terms, t)
	r.write(line{At: t.At, Term: &t})
}

// Replica records how far a replica is now.
func (r *Recorder) Replica(p Replica) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.At = r.Now()
	r.h.Replicas = append(r.h.Replicas, p)
	r.write(line{At: p.At, Replica: &p})
}

// View shows what was recorded until now, without a copy; nothing is recorded meanwhile. see may not keep any of it.
func (r *Recorder) View(see func(h *History)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	see(&r.h)
}

// History is a copy of what was recorded until now.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &History{
		Calls: slices.Clone(r.h.Calls), Arrivals: slices.Clone(r.h.Arrivals), Faults: slices.Clone(r.h.Faults),
		Terms: slices.Clone(r.h.Terms), Replicas: slices.Clone(r.h.Replicas),
	}
}

// Close ends the file. Its error is that of the first failed write, if there was one.
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
