package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/deploy/procstat"
)

// sufferHostiles gives every kind of hostile receiver tasks of its own, in a queue of its own, while another receiver
// has punctual ones. The punctual tasks are not disturbed. No task of the hostile receivers is lost, and each task's
// last error names the fault. The receivers get their tasks after the healing.
func sufferHostiles(t *testing.T, s *stage) {
	healthy, elsewhere := s.newSink(t), s.newSink(t)
	n := fewer(s, pick(s, 40, 1000), 4)
	start := time.Now().Add(pick(s, 2*time.Second, 20*time.Second))
	punctual := s.evenly(t, s.name("punctual"), pick(s, 1000, 20_000), start, pick(s, 5*time.Millisecond, 3*time.Millisecond))
	monitor := watchVitals(s.processes)

	s.schedule(t, punctual, object{"target": targetOf(healthy.url, 5*time.Second)})
	var sufferers []*sufferer
	for _, k := range kinds(elsewhere.url) {
		v := &sufferer{hostile: newHostile(t, s, k)}
		v.flow = s.evenly(t, s.name(k.name), n, start, pick(s, 50*time.Millisecond, 30*time.Millisecond))
		s.schedule(t, v.flow, object{
			"target":  targetOf(v.url, pick(s, time.Second, 3*time.Second)),
			"payload": strings.Repeat("x", k.payload()),
			"retry":   object{"max_attempts": 1000, "min_backoff": "1s", "max_backoff": "2s"},
		})
		sufferers = append(sufferers, v)
	}
	scheduledBefore(t, start)

	awaitTaken(t, healthy, len(punctual.due), pick(s, 30*time.Second, 3*time.Minute))
	acc := s.account(t, punctual, healthy.came())
	acc.hold(t, "punctual tasks beside hostile receivers", s.bound(time.Second, 20*time.Millisecond))
	for _, v := range sufferers {
		v.suffers(t, s)
	}
	if strays := len(elsewhere.came()); strays > 0 {
		t.Errorf("%d redirects were followed", strays)
	}
	for _, v := range sufferers {
		v.heal(t)
	}
	for _, v := range sufferers {
		s.awaitState(t, v.flow.queue, "delivered", n, pick(s, 40*time.Second, 3*time.Minute))
		if v.says != nil {
			acc := s.account(t, v.flow, v.sink.came())
			acc.hold(t, v.name+", healed", whenever)
		}
	}
	monitor.hold(t, procstat.Usage{Memory: pick[int64](s, 200<<20, 600<<20), Descriptors: pick(s, 2000, 10_000)})
}

// payload returns the size of the payloads for a receiver of this kind. For one that does not read, it exceeds the
// buffers on the way.
func (k *kind) payload() int {
	if k.name == neverReads {
		return 64 << 10
	}
	return 1 << 10
}

// sufferer is a hostile receiver with its tasks.
type sufferer struct {
	*hostile
	flow flow
}

// suffers checks the last errors of the receiver's tasks while it does harm.
func (v *sufferer) suffers(t *testing.T, s *stage) {
	t.Helper()
	if v.says == nil {
		return
	}
	jobs := s.all(t, v.flow.queue)
	if len(jobs) != len(v.flow.due) {
		t.Errorf("%s: %d tasks of %d are left", v.name, len(jobs), len(v.flow.due))
	}
	tried := 0
	var wrong []string
	for _, j := range jobs {
		wrong = append(wrong, v.complaints(j, s.form == alone)...)
		if j.LastError != "" {
			tried++
		}
	}
	report(t, v.name, wrong)
	if tried == 0 {
		t.Errorf("%s: no task says what went wrong", v.name)
	}
}

// complaints returns the faults of a task whose receiver does harm. If late is set, any attempt may also time out.
func (v *sufferer) complaints(j job, late bool) (wrong []string) {
	complain := func(format string, args ...any) {
		wrong = append(wrong, j.ID+": "+fmt.Sprintf(format, args...))
	}
	if !slices.Contains([]string{"ready", "firing", "retrying"}, j.State) {
		complain("it is %s", j.State)
	}
	if j.LastError != "" && !v.explained(j.LastError, late) {
		complain("its last error is %q: none of %q", j.LastError, v.says)
	}
	if j.LastError != "" && len(j.History) == 0 {
		complain("it has no history")
	}
	for _, p := range j.History {
		if p.Attempt < 1 || p.Fence == 0 || p.EndedAt.Before(p.StartedAt) || !v.explained(p.Error, late) {
			complain("an attempt in its history: %+v", p)
		}
	}
	return wrong
}

// explained reports whether an error names the receiver's harm. If late is set, the attempt may also time out.
func (v *sufferer) explained(text string, late bool) bool {
	if late && strings.Contains(text, "timed out") {
		return true
	}
	return slices.ContainsFunc(v.says, func(word string) bool { return strings.Contains(text, word) })
}

func TestComplaints(t *testing.T) {
	v := &sufferer{hostile: &hostile{kind: kind{says: []string{"500", "no luck"}}}}
	now := time.Now()
	good := job{State: "retrying", LastError: "answered 500", History: []past{{1, 7, now, now, "n", "answered 500"}}}
	if wrong := v.complaints(good, false); wrong != nil {
		t.Errorf("complaints about nothing: %q", wrong)
	}
	spoil := map[string]func(*job){
		"lost":          func(j *job) { j.State = "cancelled" },
		"unclear":       func(j *job) { j.LastError = "failed" },
		"no history":    func(j *job) { j.History = nil },
		"other history": func(j *job) { j.History = []past{{1, 7, now, now, "n", ""}} },
		"backwards":     func(j *job) { j.History = []past{{1, 7, now, now.Add(-1), "n", "500"}} },
	}
	for name, change := range spoil {
		bad := good
		change(&bad)
		if v.complaints(bad, false) == nil {
			t.Errorf("%s: no complaint", name)
		}
	}
}
