package chaos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/internal/wait"
)

// bug names a mistake that a fake cluster makes, some bugs at each call and some now and then.
type bug string

const (
	sound        bug = ""
	losesTasks   bug = "acknowledges without storing"
	firesEarly   bug = "fires early"
	forgetsStop  bug = "fires what it has cancelled"
	firesTwice   bug = "fires twice"
	changesID    bug = "repeats under another webhook-id"
	altersBody   bug = "alters the body"
	repeatsFence bug = "starts one grant twice"
	readsOld     bug = "reads what was"
	revives      bug = "shows finished tasks as waiting"
	differs      bug = "differs between replicas"
	liesAbout503 bug = "does what it says it has not"
	neverRetries bug = "leaves failed attempts lying"
	goesOn       bug = "attempts again after a stop"

	leasesTwice   bug = "leases one task to two consumers"
	leasesEarly   bug = "leases before the time"
	forgetsAcks   bug = "forgets acks"
	acceptsEnded  bug = "takes settles of ended leases"
	forgetsLeases bug = "leaves tasks lying whose leases have ended"
	refusesAcks   bug = "refuses what it should take"
	forgetsTouch  bug = "forgets touches"
	leasesLong    bug = "leases for twice as long as was asked"

	crowdsGroups bug = "attempts several tasks of a group at once"
	mixesGroups  bug = "attempts a group's tasks out of order"
	losesGroups  bug = "names no group"

	dropsFollowUps bug = "ends tasks without their follow-ups"
)

// fake is a cluster of one shard in the memory of the test. It keeps the contract except for its bug.
type fake struct {
	bug    bug
	client *http.Client // carries attempts to receivers
	ended  atomic.Bool  // no timer has an effect any more

	mu    sync.Mutex // guards the fields below
	rng   *rand.Rand // of the durations of calls
	count uint64     // number of changes: the source of revisions and fences
	tasks map[string]*fakeTask
	keys  map[string]reply // the first answer to each idempotency key
	ready []*fakeTask      // due tasks that consumers lease
	held  []*fakeTask      // due tasks that wait for their groups

	schedules map[string]*fakeSchedule
	targets   map[string]fakeTarget // of queues
}

type fakeTask struct {
	ID         string          `json:"id"`
	FireAt     time.Time       `json:"fire_at"`
	Payload    json.RawMessage `json:"payload,omitempty"`
	State      string          `json:"state"`
	Attempts   int             `json:"attempts"`
	Revision   uint64          `json:"revision"`
	Shard      uint32          `json:"shard"`
	Outcome    string          `json:"outcome,omitempty"`
	Previous   string          `json:"previous,omitempty"` // state of the replaced task, in the answer to a schedule
	Target     fakeTarget      `json:"target"`
	Retry      fakeRetry       `json:"retry"`
	Queue      string          `json:"queue"`
	Group      string          `json:"group"`
	WebhookID  string          `json:"webhook_id"`
	occurrence uint64
	armed      int                // number of timers set; only the last one may fire the task
	fence      uint64             // of the current lease; 0: the task is not leased
	leaseEnds  time.Time          // may be earlier than the timer of the lease
	acked      uint64             // fence of the acknowledged lease
	carried    json.RawMessage    // payload at the time of the cancel
	followUps  map[string]*fields // by the state in which the task ends
}

type fakeTarget struct {
	URL string `json:"url"`
}

type fakeRetry struct {
	MaxAttempts int `json:"max_attempts"`
}

// fields are the fields of a request.
type fields struct {
	Op          string          `json:"op"`
	ID          string          `json:"id"`
	Key         string          `json:"key"`
	FireAt      *time.Time      `json:"fire_at"`
	Delay       string          `json:"delay"`
	Payload     json.RawMessage `json:"payload"`
	Target      fakeTarget      `json:"target"`
	Queue       string          `json:"queue"`
	Group       string          `json:"group"`
	Retry       fakeRetry       `json:"retry"`
	OrSchedule  *fields         `json:"or_schedule"`
	OnDelivered *fields         `json:"on_delivered"`
	OnDead      *fields         `json:"on_dead"`
	ifNoneMatch bool
	ifMatch     uint64
}

type reply struct {
	status   int
	body     any
	revision uint64 // left by a cancel
}

func newFake(b bug, seed uint64, client *http.Client) *fake {
	return &fake{
		bug: b, client: client, rng: rand.New(rand.NewPCG(seed, 0)), tasks: map[string]*fakeTask{}, keys: map[string]reply{}, schedules: map[string]*fakeSchedule{},
		targets: map[string]fakeTarget{},
	}
}

// after calls run after the given time, unless the fake has ended by then. Attempts at a receiver that is closed would
// otherwise be repeated without end.
func (f *fake) after(in time.Duration, run func()) {
	time.AfterFunc(in, func() {
		if !f.ended.Load() {
			run()
		}
	})
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, verb, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/tasks/"), "/")
	if verb == "" {
		verb = map[string]string{"PUT": "schedule", "PATCH": "patch", "DELETE": "cancel", "GET": "get"}[r.Method]
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller is gone
	}
	f.work(r.Context())
	if path, about := strings.CutPrefix(r.URL.Path, "/v1/schedules/"); about {
		answer(w, f.repeat(r, path, body))
		return
	}
	switch _, call, _ := strings.Cut(r.URL.Path, "/queues/"); {
	case r.URL.Path == "/v1/batch":
		f.batch(w, body)
		return
	case r.URL.Path == "/v1/tasks":
		answer(w, f.list(r.URL.Query()))
		return
	case strings.HasSuffix(call, "/lease"):
		answer(w, f.lease(r.Context(), strings.TrimSuffix(call, "/lease"), body))
		return
	case strings.HasSuffix(call, "/settle"):
		answer(w, f.settleLeases(body))
		return
	case call != "":
		answer(w, f.putQueue(call, body))
		return
	}
	in := fields{Op: verb, ID: id, Key: r.Header.Get("Idempotency-Key")}
	if len(body) > 0 && json.Unmarshal(body, &in) != nil {
		answer(w, reply{status: http.StatusBadRequest})
		return
	}
	in.ifNoneMatch = r.Header.Get("If-None-Match") != ""
	in.ifMatch, _ = strconv.ParseUint(strings.Trim(r.Header.Get("If-Match"), `"`), 10, 64)
	if verb == "get" {
		answer(w, f.get(id, r.URL.Query().Has("consistency") && strings.HasPrefix(r.Host, "localhost")))
		return
	}
	answer(w, f.change(in))
}

// callTime is the longest time that a call takes. Some callers give up sooner, and do not learn whether it happened.
const callTime = 6 * time.Millisecond

// work takes the time of a call.
func (f *fake) work(ctx context.Context) {
	f.mu.Lock()
	d := time.Duration(f.rng.Int64N(int64(callTime)))
	f.mu.Unlock()
	wait.For(ctx, d)
}

func answer(w http.ResponseWriter, r reply) {
	w.Header().Set("Content-Type", "application/json")
	if r.revision > 0 {
		w.Header().Set("ETag", strconv.Quote(strconv.FormatUint(r.revision, 10)))
	}
	w.WriteHeader(r.status)
	_ = json.NewEncoder(w).Encode(r.body) // the caller may be gone
}

func (f *fake) batch(w http.ResponseWriter, body []byte) {
	dec := json.NewDecoder(bytes.NewReader(body))
	for {
		var in fields
		if err := dec.Decode(&in); errors.Is(err, io.EOF) {
			return
		}
		r := f.change(in)
		line := map[string]any{"id": in.ID, "status": r.status}
		switch body := r.body.(type) {
		case fakeTask:
			line["revision"] = body.Revision
		case map[string]string:
			line["outcome"], line["revision"] = body["outcome"], r.revision
		}
		_ = json.NewEncoder(w).Encode(line) // the caller may be gone
	}
}

// list returns the tasks that are in one of the given states and due before an instant.
func (f *fake) list(q url.Values) reply {
	before, err := time.Parse(time.RFC3339Nano, q.Get("due_before"))
	if err != nil {
		return reply{status: http.StatusBadRequest}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	found := []fakeTask{}
	for _, t := range f.tasks {
		if slices.Contains(q["state"], t.State) && t.FireAt.Before(before) {
			found = append(found, *t)
		}
	}
	return reply{status: http.StatusOK, body: map[string]any{"tasks": found}}
}

func (f *fake) get(id string, otherReplica bool) reply {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tasks[id]
	if t == nil {
		return reply{status: http.StatusNotFound}
	}
	copied := *t
	switch {
	case f.bug == readsOld, f.bug == differs && otherReplica:
		copied.Revision /= 2
	case f.bug == revives && copied.State == "cancelled":
		copied.State = "scheduled"
	}
	return reply{status: http.StatusOK, body: copied}
}

// change carries out an operation, once for each idempotency key.
func (f *fake) change(in fields) reply {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.keys[in.Key]; ok {
		return known
	}
	f.count++
	if f.bug == liesAbout503 && f.count%10 == 0 {
		f.apply(in)
		lie := reply{status: http.StatusServiceUnavailable, body: map[string]string{"committed": "no"}}
		f.keys[in.Key] = lie // a repeat gets the same lie: a true answer would mostly hide the bug
		return lie
	}
	r := f.apply(in)
	if r.status < 300 {
		f.keys[in.Key] = r
	}
	return r
}

func (f *fake) apply(in fields) reply {
	t := f.tasks[in.ID]
	switch {
	case in.Op == "schedule" && (in.ifNoneMatch && t != nil || in.ifMatch > 0 && (t == nil || t.Revision != in.ifMatch)):
		return reply{status: http.StatusPreconditionFailed}
	case in.Op == "schedule":
		return f.schedule(in)
	case in.Op == "touch" && in.OrSchedule != nil && (t == nil || t.begun()):
		in.OrSchedule.ID = in.ID
		return f.schedule(*in.OrSchedule)
	case t == nil:
		return reply{status: http.StatusNotFound}
	case in.Op == "cancel":
		return f.cancel(t)
	case in.Op == "fire" && t.State == "ready":
		return reply{status: http.StatusOK, body: *t}
	case in.Op == "fire" && t.State == "retrying":
		t.Revision = f.count
		f.retry(t, 0)
		return reply{status: http.StatusOK, body: *t}
	case t.begun():
		return reply{status: http.StatusConflict, body: map[string]any{"state": t.State, "attempts": t.Attempts}}
	}
	t.Revision = f.count
	if in.Payload != nil {
		t.Payload = in.Payload
	}
	due := in.due()
	if in.Op == "fire" && t.FireAt.Before(due) {
		due = t.FireAt
	}
	if f.bug != forgetsTouch {
		f.unready(t)
		t.State = "scheduled"
		f.arm(t, due)
	}
	return reply{status: http.StatusOK, body: *t}
}

// begun reports whether an attempt of the occurrence has begun.
func (t *fakeTask) begun() bool {
	return t.State != "scheduled" && (t.State != "ready" || t.Attempts > 0)
}

func (t *fakeTask) finished() bool {
	return t.State == "delivered" || t.State == "dead" || t.State == "cancelled"
}

func (in fields) due() time.Time {
	if in.FireAt != nil {
		return in.FireAt.Add(time.Millisecond - 1).Truncate(time.Millisecond)
	}
	delay, _ := time.ParseDuration(in.Delay) // empty: due now
	return time.Now().Add(delay).Truncate(time.Millisecond).Add(time.Millisecond)
}

func (f *fake) schedule(in fields) reply {
	t := &fakeTask{
		ID: in.ID, Payload: in.Payload, State: "scheduled", Shard: 1, Target: in.Target, Retry: in.Retry, Queue: in.Queue,
		Group: in.Group, Revision: f.count, occurrence: f.count, WebhookID: fmt.Sprintf("w%d", f.count),
		followUps: map[string]*fields{"delivered": in.OnDelivered, "dead": in.OnDead},
	}
	if target, ok := f.targets[in.Queue]; ok {
		t.Target = target
	}
	if f.bug == losesGroups {
		t.Group = ""
	}
	previous, status := "", http.StatusCreated
	if old := f.tasks[in.ID]; old != nil {
		old.armed++
		f.unready(old)
		previous = old.State
		if !old.finished() {
			status = http.StatusOK
		}
	}
	f.tasks[in.ID] = t
	t.FireAt = in.due()
	f.arm(t, t.FireAt)
	if f.bug == losesTasks && f.count%20 == 0 {
		t.armed++
		t.State = "delivered"
	}
	copied := *t
	copied.Previous = previous
	return reply{status: status, body: copied}
}

func (f *fake) cancel(t *fakeTask) reply {
	switch {
	case t.Outcome != "":
	case t.State == "scheduled", t.State == "ready" && t.Attempts == 0:
		f.unready(t)
		t.carried = t.Payload
		t.State, t.Outcome, t.Revision, t.Payload = "cancelled", "cancelled", f.count, nil
		if f.bug != forgetsStop {
			t.armed++
		}
	case t.State == "firing", t.State == "retrying" && f.bug == goesOn:
		t.Outcome, t.Revision = "stopped", f.count
	case t.State == "retrying", t.State == "ready":
		f.unready(t)
		t.armed++
		t.State, t.Outcome, t.Revision, t.Payload = "cancelled", "stopped", f.count, nil
	default:
		return cancelled("already_fired", t.Revision)
	}
	return cancelled(t.Outcome, t.Revision)
}

func cancelled(outcome string, revision uint64) reply {
	return reply{status: http.StatusOK, body: map[string]string{"outcome": outcome}, revision: revision}
}

// arm sets the due time and the timer of a task. The caller holds f.mu.
func (f *fake) arm(t *fakeTask, due time.Time) {
	t.FireAt = due
	in := time.Until(due)
	if f.bug == firesEarly || f.bug == leasesEarly && t.Target.URL == "" {
		in /= 2
	}
	t.armed++
	armed := t.armed
	f.after(in, func() { f.fire(t, armed) })
}

func (f *fake) fire(t *fakeTask, armed int) {
	f.mu.Lock()
	if t.armed != armed {
		f.mu.Unlock()
		return
	}
	if t.Target.URL == "" {
		f.makeReady(t)
		f.mu.Unlock()
		return
	}
	if !f.hasTurn(t) {
		f.held = append(f.held, t)
		f.mu.Unlock()
		return
	}
	f.count++
	t.Attempts++
	fence, payload, webhook := f.count, t.Payload, t.WebhookID
	if t.State == "cancelled" {
		payload = t.carried
	} else {
		t.State, t.Revision = "firing", f.count
	}
	due, attempt, again := t.FireAt, t.Attempts, f.count%5 == 0
	f.mu.Unlock()
	if f.bug == altersBody && again {
		payload = slices.Concat(bytes.TrimSuffix(payload, []byte("}")), []byte(" }"))
	}
	ok := f.deliver(t, webhook, attempt, fence, due, payload)
	switch {
	case !again || attempt > 1:
	case f.bug == firesTwice:
		ok = f.deliver(t, webhook, attempt, fence+1<<32, due, payload)
	case f.bug == changesID:
		ok = f.deliver(t, webhook+"x", attempt, fence+1<<32, due, payload)
	case f.bug == repeatsFence:
		ok = f.deliver(t, webhook, attempt, fence, due, payload)
	}
	f.settle(t, ok)
}

func (f *fake) settle(t *fakeTask, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	f.endAttempt(t, ok, 10*time.Millisecond)
}

// endAttempt ends an attempt and sets the task's next state. The caller holds f.mu.
func (f *fake) endAttempt(t *fakeTask, ok bool, retryIn time.Duration) {
	switch limit := t.Retry.MaxAttempts; {
	case t.State == "cancelled":
		return
	case ok:
		t.State, t.Payload = "delivered", nil
	case t.Outcome != "" && f.bug != goesOn:
		t.State, t.Payload = "cancelled", nil
	case limit > 0 && t.Attempts >= limit:
		t.State = "dead"
	default:
		t.State = "retrying"
		if f.bug != neverRetries {
			f.retry(t, retryIn)
		}
	}
	t.Revision = f.count
	if next := t.followUps[t.State]; next != nil && f.bug != dropsFollowUps {
		f.count++
		next.ID = t.ID + "@" + t.State
		f.schedule(*next)
	}
	f.passTurns()
}

// retry attempts a task again after the given time. The caller holds f.mu.
func (f *fake) retry(t *fakeTask, in time.Duration) {
	t.armed++
	armed := t.armed
	f.after(in, func() { f.fire(t, armed) })
}

func (f *fake) deliver(t *fakeTask, webhook string, attempt int, fence uint64, due time.Time, payload []byte) bool {
	req, err := http.NewRequest(http.MethodPost, t.Target.URL, bytes.NewReader(payload))
	if err != nil {
		return false
	}
	for name, value := range map[string]string{
		"ce-subject": t.ID, "webhook-id": webhook, "belfry-attempt": strconv.Itoa(attempt),
		"belfry-fence": strconv.FormatUint(fence, 10), "belfry-due": due.UTC().Format(time.RFC3339Nano),
		"belfry-group": t.Group,
	} {
		req.Header.Set(name, value)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}
