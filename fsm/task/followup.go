package task

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// A follow-up has these limits.
const (
	MaxFollowUps  = 3        // follow-ups of follow-ups, of one first task
	MaxKeptAnswer = 16 << 10 // bytes of a receiver's answer in an outcome
)

// The ends of a follow-up's id, behind the id of the task that it follows.
const (
	deliveredEnd = seriesMark + "delivered"
	deadEnd      = seriesMark + "dead"
)

// FollowUpID returns the id of the follow-up of a task that ended as delivered or dead. It has the slot of that task.
func FollowUpID(id string, end fsmpb.State) string {
	if end == fsmpb.State_STATE_DEAD {
		return id + deadEnd
	}
	return id + deliveredEnd
}

// SplitFollowUp returns the id of the first task of a row of follow-ups, and the place of this one behind it, from 1.
// The place of any other task is 0.
func SplitFollowUp(id string) (first string, place int) {
	for {
		before, ok := strings.CutSuffix(id, deliveredEnd)
		if !ok {
			before, ok = strings.CutSuffix(id, deadEnd)
		}
		if !ok {
			return id, place
		}
		id, place = before, place+1
	}
}

// FollowUps yields the follow-ups of a task or a queue, and theirs in turn, each with the path of its member, such as
// "on_delivered.on_dead". Both arguments may be nil.
func FollowUps(onDelivered, onDead *fsmpb.FollowUp) iter.Seq2[string, *fsmpb.FollowUp] {
	return func(yield func(string, *fsmpb.FollowUp) bool) {
		walkFollowUps("", onDelivered, onDead, yield)
	}
}

func walkFollowUps(path string, onDelivered, onDead *fsmpb.FollowUp, yield func(string, *fsmpb.FollowUp) bool) bool {
	for i, f := range []*fsmpb.FollowUp{onDelivered, onDead} {
		if f == nil {
			continue
		}
		member := path + []string{"on_delivered", "on_dead"}[i]
		if !yield(member, f) || !walkFollowUps(member+".", f.Spec.GetOnDelivered(), f.Spec.GetOnDead(), yield) {
			return false
		}
	}
	return true
}

// PayloadBytes returns the size of the payloads of a task and of its follow-ups together. s may be nil.
func PayloadBytes(s *fsmpb.Spec) int {
	n := len(s.GetPayload())
	for _, f := range FollowUps(s.GetOnDelivered(), s.GetOnDead()) {
		n += len(f.Spec.GetPayload())
	}
	return n
}

// checkFollowUps checks the follow-ups of a task or a queue.
func checkFollowUps(onDelivered, onDead *fsmpb.FollowUp) *FieldError {
	for path, f := range FollowUps(onDelivered, onDead) {
		if strings.Count(path, ".") >= MaxFollowUps {
			return &FieldError{Field: path, Detail: "is a follow-up behind the third", Limit: fmt.Sprint(MaxFollowUps)}
		}
		if err := checkFollowUp(f); err != nil {
			return &FieldError{Field: path + "." + err.Field, Detail: err.Detail, Limit: err.Limit}
		}
	}
	return nil
}

func checkFollowUp(f *fsmpb.FollowUp) *FieldError {
	switch {
	case f.DelayMs < 0 || f.DelayMs > MaxDelay.Milliseconds():
		return &FieldError{Field: "delay", Detail: "is out of range", Limit: "0s to 100 years"}
	case f.KeepAnswer && HasPayload(f.Spec):
		return &FieldError{Field: "keep_answer", Detail: "is for a follow-up without a payload, which gets the outcome"}
	case HasMasked(f.Spec.GetTarget()):
		return &FieldError{Field: "target.headers", Detail: "has " + Masked + ": a follow-up keeps no value that was " +
			"stored, so give it anew"}
	case f.Spec == nil:
		return nil
	}
	return checkOne(f.Spec)
}

// checkQueueFollowUps checks the follow-ups of a queue. They are written into the logs of the shards, where no value is
// sealed.
func checkQueueFollowUps(p *fsmpb.QueuePolicy) *FieldError {
	for path, f := range FollowUps(p.OnDelivered, p.OnDead) {
		for _, h := range f.Spec.GetTarget().GetHeaders() {
			if IsCredential(h.Name) {
				return &FieldError{Field: path + ".target.headers." + h.Name, Detail: "is a credential, which a queue's " +
					"follow-up may not have: name a queue in it whose target has the header"}
			}
		}
	}
	return checkFollowUps(p.OnDelivered, p.OnDead)
}

// HasPayload reports whether a caller gave a spec a payload, which may be of no bytes. s may be nil.
func HasPayload(s *fsmpb.Spec) bool { return len(s.GetPayload()) > 0 || s.GetPayloadIsBytes() }

// WantsOutcome reports whether a follow-up gets the outcome of the task before it. f may be nil.
func WantsOutcome(f *fsmpb.FollowUp) bool {
	return f != nil && !HasPayload(f.Spec) && f.Spec.GetTarget().GetMethod() != http.MethodGet
}

// FollowUpOf returns the follow-up of a task that ends as delivered or dead: its own, else its queue's, else nil. A
// queue's follow-ups end with the last that a row may have.
func FollowUpOf(end fsmpb.State, id string, own *fsmpb.Spec, onDelivered, onDead *fsmpb.FollowUp) *fsmpb.FollowUp {
	f := cmp.Or(own.GetOnDelivered(), onDelivered)
	if end == fsmpb.State_STATE_DEAD {
		f = cmp.Or(own.GetOnDead(), onDead)
	}
	if f == nil {
		return nil
	}
	if _, place := SplitFollowUp(id); place >= MaxFollowUps {
		return nil
	}
	return f
}

// End is the end of a task, as its follow-up gets it.
type End struct {
	ID, Queue   string
	State       fsmpb.State // delivered or dead
	Attempts    uint32
	Error       string
	DueMs, AtMs int64
	Status      uint32 // of the receiver's answer; 0: none
	Answer      []byte // its beginning; nil: it was not kept
}

// Outcome returns the end as the payload of a follow-up.
func (e *End) Outcome() []byte {
	_, occurrence, _ := SplitOccurrence(e.ID)
	text, err := json.Marshal(struct {
		ID         string `json:"id"`
		Queue      string `json:"queue"`
		Occurrence uint64 `json:"occurrence,omitempty"`
		Outcome    string `json:"outcome"`
		Attempts   uint32 `json:"attempts"`
		Status     uint32 `json:"status,omitempty"`
		Error      string `json:"error,omitempty"`
		Answer     []byte `json:"answer_base64,omitempty"`
		Due        string `json:"due"`
		DoneAt     string `json:"done_at"`
	}{e.ID, e.Queue, occurrence, FollowUpID("", e.State)[len(seriesMark):], e.Attempts, e.Status, e.Error, e.Answer,
		instant(e.DueMs), instant(e.AtMs)})
	if err != nil {
		panic(fmt.Sprintf("task: an outcome cannot be written: %v", err)) // texts, numbers and bytes always can
	}
	return text
}

func instant(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }
