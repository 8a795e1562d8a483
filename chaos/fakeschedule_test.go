package chaos_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// The mistakes with schedules.
const (
	doublesInstants bug = "begins two occurrences for one instant"
	skipsInstants   bug = "begins no occurrence for an instant"
	countsPassed    bug = "counts occurrences that ran as passed"
	runsInPauses    bug = "runs paused schedules"
	runsPastCount   bug = "goes on after a schedule's count"
)

// fakeSchedule is a schedule of an interval. Its occurrences run beside each other.
type fakeSchedule struct {
	ID      string       `json:"id"`
	Repeat  fakeRepeat   `json:"repeat"`
	Task    fakeTemplate `json:"task"`
	Paused  bool         `json:"paused"`
	Last    uint64       `json:"last"`
	Started uint64       `json:"started"`
	Passed  uint64       `json:"passed"`
	ruled   uint64       // occurrences of the present rule
	next    time.Time    // next instant of the rule
	armed   int          // number of timers set; only the last one counts
	every   time.Duration
}

type fakeRepeat struct {
	Every  string    `json:"every"`
	Anchor time.Time `json:"anchor"`
	Count  uint64    `json:"count,omitempty"`
}

type fakeTemplate struct {
	Payload json.RawMessage `json:"payload,omitempty"`
	Target  fakeTarget      `json:"target"`
}

// scheduleFields are the fields of a request about a schedule.
type scheduleFields struct {
	Repeat   fakeRepeat   `json:"repeat"`
	Task     fakeTemplate `json:"task"`
	From, To time.Time
}

// repeat carries out a call about a schedule, once for each idempotency key.
func (f *fake) repeat(r *http.Request, path string, body []byte) reply {
	id, verb, _ := strings.Cut(path, "/")
	var in scheduleFields
	if len(body) > 0 && json.Unmarshal(body, &in) != nil {
		return reply{status: http.StatusBadRequest}
	}
	if verb == "" {
		verb = r.Method
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	if known, ok := f.keys[key]; ok {
		return known
	}
	answer := f.applyRepeat(id, verb, in)
	if key != "" && answer.status < 300 {
		f.keys[key] = answer
	}
	return answer
}

func (f *fake) applyRepeat(id, verb string, in scheduleFields) reply {
	s := f.schedules[id]
	if s == nil && verb != http.MethodPut {
		return reply{status: http.StatusNotFound}
	}
	switch verb {
	case http.MethodPut:
		s = f.putSchedule(s, id, in)
	case "pause", "resume":
		f.pause(s, verb == "pause")
	case "skip":
		if s.Paused {
			return reply{status: http.StatusConflict}
		}
		s.Last, s.Passed, s.next = s.Last+1, s.Passed+1, s.next.Add(s.every)
		s.ruled++
		f.await(s)
	case "fire":
		f.occur(s, time.Now().Truncate(time.Millisecond))
		return reply{status: http.StatusCreated, body: map[string]any{"schedule": *s}}
	case "backfill":
		f.backfill(s, in.From, in.To)
	case http.MethodDelete:
		s.armed++
		delete(f.schedules, id)
	}
	return reply{status: http.StatusOK, body: *s}
}

func (f *fake) putSchedule(s *fakeSchedule, id string, in scheduleFields) *fakeSchedule {
	every, _ := time.ParseDuration(in.Repeat.Every) // the load gives an interval always
	if s == nil {
		s = &fakeSchedule{ID: id}
		f.schedules[id] = s
	}
	now := time.Now().Truncate(time.Millisecond)
	s.Repeat, s.Task, s.every, s.Paused = in.Repeat, in.Task, every, false
	s.Repeat.Anchor, s.next, s.ruled = now, now.Add(every), 0
	f.await(s)
	return s
}

// pause pauses or resumes a schedule. The rule goes on after the present.
func (f *fake) pause(s *fakeSchedule, paused bool) {
	if f.bug == runsInPauses {
		return
	}
	s.Paused = paused
	s.armed++
	for !paused && !s.next.After(time.Now()) {
		s.next = s.next.Add(s.every)
	}
	f.await(s)
}

func (f *fake) backfill(s *fakeSchedule, from, to time.Time) {
	for at := s.Repeat.Anchor; !at.After(to); at = at.Add(s.every) {
		if !at.Before(from) {
			f.occur(s, at)
		}
	}
}

// await sets the timer of a schedule. The caller holds f.mu.
func (f *fake) await(s *fakeSchedule) {
	s.armed++
	armed := s.armed
	if s.Paused || s.Repeat.Count > 0 && s.ruled >= s.Repeat.Count && f.bug != runsPastCount {
		return
	}
	f.after(time.Until(s.next), func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if s.armed == armed {
			f.tick(s)
		}
	})
}

// tick begins the occurrence of the next instant. The caller holds f.mu.
func (f *fake) tick(s *fakeSchedule) {
	fifth := s.Last%5 == 4
	switch {
	case f.bug == skipsInstants && fifth:
		s.next = s.next.Add(s.every)
	case f.bug == countsPassed && fifth:
		s.Passed++
	}
	f.occur(s, s.next)
	if f.bug == doublesInstants && fifth {
		f.occur(s, s.next)
	}
	s.ruled++
	s.next = s.next.Add(s.every)
	f.await(s)
}

// occur begins an occurrence. The caller holds f.mu.
func (f *fake) occur(s *fakeSchedule, due time.Time) {
	f.count++
	s.Last, s.Started = s.Last+1, s.Started+1
	t := &fakeTask{
		ID: fmt.Sprintf("%s@%d", s.ID, s.Last), Payload: s.Task.Payload, State: "scheduled", Shard: 1,
		Target: s.Task.Target, Revision: f.count, occurrence: f.count, WebhookID: fmt.Sprintf("w%d", f.count),
	}
	f.tasks[t.ID] = t
	f.arm(t, due)
}
