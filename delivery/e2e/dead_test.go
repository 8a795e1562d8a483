package e2e_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/deploy/receiver"
	"github.com/belfryhq/belfry/internal/assert"
)

// count is the answer to a replay or a drop.
type count struct {
	Count int `json:"count"`
}

// deadLetters checks that a task whose attempts are used up stays with its last error until it is replayed under its
// old webhook-id, or dropped.
func deadLetters(t *testing.T, s *stage) {
	const perQueue = 4
	sink := s.newSink(t)
	sink.reply(func(receiver.Arrival) reply { return reply{status: http.StatusInternalServerError} })
	queue := s.name("dead letters")
	s.putQueue(t, s.any(), queue, object{
		"target": targetOf(sink.url, 5*time.Second),
		"retry":  object{"max_attempts": 2, "min_backoff": "1s", "max_backoff": "1s"},
	})
	now := time.Now()
	again, away := s.evenly(t, queue+"-again", perQueue, now, 0), s.evenly(t, queue+"-away", perQueue, now, 0)
	again.queue, away.queue = queue, queue
	s.schedule(t, again, object{"labels": object{"fate": "again"}})
	s.schedule(t, away, object{"labels": object{"fate": "away"}})
	s.awaitState(t, queue, "dead", 2*perQueue, 20*time.Second)

	jobs, err := s.any().list(t.Context(), url.Values{"queue": {queue}, "state": {"dead"}, "label": {"fate:again"}})
	if err != nil || len(jobs) != perQueue {
		t.Fatalf("%d dead letters with the label: %v", len(jobs), err)
	}
	for _, j := range jobs {
		report(t, "a dead letter", deadLetterFaults(j, 2, "500"))
	}
	died := sink.came()
	sink.reply(func(receiver.Arrival) reply { return reply{} })

	var replayed count
	path := queuePath(queue) + "/dead/replay?label=fate:again"
	if _, err := s.any().call(t.Context(), http.MethodPost, path, nil, &replayed); err != nil || replayed.Count != perQueue {
		t.Fatalf("replayed %+v, %v, want %d", replayed, err, perQueue)
	}
	awaitTaken(t, sink, perQueue, 10*time.Second)
	acc := s.account(t, again, sink.came()[len(died):])
	acc.hold(t, "replayed", whenever)
	for _, a := range sink.came()[len(died):] {
		i := slices.IndexFunc(died, func(d receiver.Arrival) bool { return d.TaskID == a.TaskID })
		if a.WebhookID != died[i].WebhookID || a.Attempt != 1 || a.Fence <= died[i].Fence {
			t.Errorf("%s is replayed as attempt %d of %s under fence %d: it was %s under %d",
				a.TaskID, a.Attempt, a.WebhookID, a.Fence, died[i].WebhookID, died[i].Fence)
		}
	}
	var dropped count
	path = queuePath(queue) + "/dead?label=fate:away"
	if _, err := s.any().call(t.Context(), http.MethodDelete, path, nil, &dropped); err != nil || dropped.Count != perQueue {
		t.Errorf("dropped %+v, %v, want %d", dropped, err, perQueue)
	}
	s.awaitState(t, queue, "delivered", perQueue, 5*time.Second)
}

// deadLetterFaults returns the faults of a dead letter whose attempts all failed for one reason.
func deadLetterFaults(j job, attempts int, reason string) (wrong []string) {
	if j.State != "dead" || j.Attempts != attempts {
		wrong = append(wrong, j.ID+" is "+j.State)
	}
	if !strings.Contains(j.LastError, reason) {
		wrong = append(wrong, j.ID+" says "+j.LastError)
	}
	if len(j.History) != attempts {
		wrong = append(wrong, j.ID+" remembers other attempts than it had")
	}
	for i, p := range j.History {
		if p.Attempt != i+1 || !strings.Contains(p.Error, reason) || p.Node == "" || p.EndedAt.Before(p.StartedAt) {
			wrong = append(wrong, j.ID+" remembers an attempt wrongly: "+p.Error)
		}
	}
	return wrong
}

// keptDead checks that a queue with keep_dead forgets its dead letters after that time, and no sooner.
func keptDead(t *testing.T, s *stage) {
	sink := s.newSink(t)
	sink.reply(func(receiver.Arrival) reply { return reply{status: http.StatusGone} })
	queue := s.name("kept dead")
	s.putQueue(t, s.any(), queue, object{"target": targetOf(sink.url, 5*time.Second), "keep_dead": "3s"})
	f := s.one(t, queue, nil)
	s.awaitState(t, queue, "dead", 1, 10*time.Second)
	died := sink.came()[0].At
	await(t, 15*time.Second, "the dead letter forgotten", func() (bool, string) {
		j, err := s.any().get(t.Context(), f.ids()[0])
		return err != nil && strings.HasPrefix(err.Error(), "404"), j.State
	})
	if after := time.Since(died); after < 3*time.Second {
		t.Errorf("forgotten %v after its death: it was to be kept for 3 s", after)
	}
	assert.Equal(t, len(sink.came()), 1, "attempts after a 410")
}

// expired checks that a task that was not begun in its time becomes a dead letter and is never begun.
func expired(t *testing.T, s *stage) {
	sink := s.newSink(t)
	queue := s.name("expired")
	s.putQueue(t, s.any(), queue, object{"target": targetOf(sink.url, 5*time.Second), "paused": true})
	f := s.one(t, queue, object{"expires_after": "1s"})
	s.awaitState(t, queue, "dead", 1, 15*time.Second)
	j, err := s.any().get(t.Context(), f.ids()[0])
	if err != nil || !strings.Contains(j.LastError, "expired") || j.Attempts != 0 {
		t.Errorf("expired: %+v, %v", j, err)
	}
	if after := time.Since(f.due[j.ID]); after < time.Second {
		t.Errorf("expired after %v: it had 1 s", after)
	}
	s.putQueue(t, s.any(), queue, object{"target": targetOf(sink.url, 5*time.Second)})
	var replayed count
	if _, err := s.any().call(t.Context(), http.MethodPost, queuePath(queue)+"/dead/replay", nil, &replayed); err != nil || replayed.Count != 1 {
		t.Errorf("replayed %+v, %v", replayed, err)
	}
	awaitTaken(t, sink, 1, 10*time.Second)
	if n := len(sink.came()); n != 1 {
		t.Errorf("%d arrivals: before its replay there should be none", n)
	}
}

// retryAfter checks that a receiver's Retry-After sets the time of the next attempt.
func retryAfter(t *testing.T, s *stage) {
	const delay = 3 * time.Second
	sink := s.newSink(t)
	sink.reply(func(a receiver.Arrival) reply {
		if a.Attempt == 1 {
			return reply{status: http.StatusServiceUnavailable, retryAfter: "3"}
		}
		return reply{}
	})
	queue := s.name("retry after")
	s.putQueue(t, s.any(), queue, object{"target": targetOf(sink.url, 5*time.Second)})
	s.one(t, queue, object{"retry": object{"min_backoff": "1s", "max_backoff": "1s"}})
	awaitTaken(t, sink, 1, 15*time.Second)
	came := sink.came()
	assert.MustEqual(t, len(came), 2, "attempts")
	if after := came[1].At.Sub(came[0].At); after < delay || after > delay+2*time.Second {
		t.Errorf("next attempt after %v, want the receiver's Retry-After of %v", after, delay)
	}
	if came[0].WebhookID != came[1].WebhookID || came[1].Attempt != 2 {
		t.Errorf("attempts of one occurrence: %s/%d, %s/%d",
			came[0].WebhookID, came[0].Attempt, came[1].WebhookID, came[1].Attempt)
	}
}

func TestDeadLetterFaults(t *testing.T) {
	now := time.Now()
	good := job{State: "dead", Attempts: 1, LastError: "500 Oh No", History: []past{{1, 1, now, now, "n", "500"}}}
	if wrong := deadLetterFaults(good, 1, "500"); wrong != nil {
		t.Errorf("found wrong: %q", wrong)
	}
	spoil := map[string]func(*job){
		"alive":      func(j *job) { j.State = "retrying" },
		"unclear":    func(j *job) { j.LastError = "failed" },
		"no history": func(j *job) { j.History = nil },
		"no node":    func(j *job) { j.History = []past{{1, 1, now, now, "", "500"}} },
		"miscounted": func(j *job) { j.History = []past{{2, 1, now, now, "n", "500"}} },
	}
	for name, change := range spoil {
		bad := good
		change(&bad)
		if deadLetterFaults(bad, 1, "500") == nil {
			t.Errorf("%s: nothing found", name)
		}
	}
}
