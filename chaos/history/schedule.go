package history

import (
	"strings"
	"time"
)

// The kinds of calls about schedules.
const (
	PutSchedule    = "put"
	PauseSchedule  = "pause"
	ResumeSchedule = "resume"
	FireSchedule   = "fire" // begins an occurrence that no rule names
	SkipNext       = "skip"
	BackfillPast   = "backfill"
	DeleteSchedule = "delete"
)

// The policies of schedules that the checks know.
const (
	OverlapAllow = "allow" // occurrences run beside each other
	MisfireAll   = "all"   // all missed occurrences run, up to the last thousand
)

// ScheduleCall is an operation about a schedule, with all its tries. It is recorded once the last try is over.
type ScheduleCall struct {
	Op        int64         `json:"op"`
	Kind      string        `json:"kind"`
	ID        string        `json:"id"`
	Namespace string        `json:"namespace,omitempty"`
	Every     time.Duration `json:"every,omitempty"`   // of a put: the interval; 0: another rule
	Count     int64         `json:"count,omitempty"`   // of a put: most occurrences of its rule; 0: no limit
	Overlap   string        `json:"overlap,omitempty"` // of a put
	Misfire   string        `json:"misfire,omitempty"` // of a put
	Body      uint64        `json:"body,omitempty"`    // of a put: hash of the occurrences' payload, which names Op
	From      Instant       `json:"from,omitempty"`    // of a backfill: its first instant
	To        Instant       `json:"to,omitempty"`      // of a backfill: its last instant
	Start     Instant       `json:"start"`             // of the first try
	End       Instant       `json:"-"`                 // when the last try was answered or given up
	Outcome   Outcome       `json:"outcome"`
	Tries     int           `json:"tries"`
}

// Tally is a schedule as a read at the end of a run shows it, with the occurrences whose tasks were found.
type Tally struct {
	At        Instant       `json:"-"`
	ID        string        `json:"id"`
	Namespace string        `json:"namespace,omitempty"`
	Absent    bool          `json:"absent,omitempty"` // there is no such schedule
	Every     time.Duration `json:"every,omitempty"`  // 0: another rule than an interval
	Anchor    Instant       `json:"anchor,omitempty"` // of the interval
	Last      uint64        `json:"last"`             // number of the last occurrence
	Started   uint64        `json:"started"`
	Passed    uint64        `json:"passed"`
	Running   []uint64      `json:"running,omitempty"`
	Waiting   []uint64      `json:"waiting,omitempty"`
	// Found are the numbers of the occurrences that never arrived, and whose tasks could be read.
	Found []uint64 `json:"found,omitempty"`
}

// occurrenceMark separates the id of a schedule from the number of an occurrence.
const occurrenceMark = "@"

// ScheduleOf returns the id of the schedule that a task is an occurrence of. ok is false for any other task.
func ScheduleOf(taskID string) (id string, ok bool) {
	id, _, ok = strings.Cut(taskID, occurrenceMark)
	return id, ok
}

// CalledSchedule records an operation about a schedule that is over now.
func (r *Recorder) CalledSchedule(c ScheduleCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.End = r.Now()
	r.h.ScheduleCalls = append(r.h.ScheduleCalls, c)
	r.write(line{At: c.End, ScheduleCall: &c})
}

// Tally records a schedule at the end of a run, read now.
func (r *Recorder) Tally(t Tally) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.At = r.Now()
	r.h.Tallies = append(r.h.Tallies, t)
	r.write(line{At: t.At, Tally: &t})
}
