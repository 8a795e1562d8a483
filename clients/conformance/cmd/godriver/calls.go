package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/client/webhook"
)

type (
	// call makes one call of the suite.
	call = func(*k) (any, error)
	// object is a result with members of its own.
	object = map[string]any
)

// traced adds a trace context to the requests, as a tracer's transport does.
type traced string

func (t traced) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("traceparent", string(t))
	return http.DefaultTransport.RoundTrip(r)
}

func (d *driver) open(name string, w with) (err error) {
	cfg := client.Config{
		Addrs: arg[[]string](w, "addresses"), Key: client.NewSecret(w.text("key")), Namespace: w.text("namespace"),
		Timeout: w.span("timeout"), AttemptTimeout: w.span("attempt_timeout"), MaxAttempts: arg[int](w, "max_attempts"),
		FixedAddrs: true, SingleCalls: true,
	}
	if trace := w.text("traceparent"); trace != "" {
		cfg.HTTPClient = &http.Client{Transport: traced(trace)}
	}
	d.clients[name], err = client.New(cfg)
	return err
}

func (d *driver) receiver(name string, w with) (err error) {
	cfg := webhook.Config{Secrets: arg[[]string](w, "secrets")}
	if now := arg[int64](w, "now"); now != 0 {
		cfg.Now = func() time.Time { return time.Unix(now, 0) }
	}
	d.verifiers[name], err = webhook.New(cfg)
	return err
}

func verify(ctx context.Context, v *webhook.Verifier, w with) (any, error) {
	header := http.Header{}
	for name, value := range arg[map[string]string](w, "headers") {
		header.Set(name, value)
	}
	delivery, err := v.Verify(ctx, header, []byte(w.text("body")))
	if err != nil {
		return nil, err
	}
	var tasks []object
	for _, e := range delivery.Events {
		tasks = append(tasks, object{"task": e.Task, "fence": e.Fence, "stale": e.Stale})
	}
	first := delivery.Events[0]
	return object{"task": first.Task, "fence": first.Fence, "attempt": first.Attempt, "webhook_id": delivery.ID,
		"tasks": tasks}, nil
}

// changed returns the task of a call that changes it.
func changed(call func(client.Option) (client.Change, error)) (any, error) {
	var task client.Task
	change, err := call(client.ReturnTask(&task))
	if err != nil {
		return nil, err
	}
	return member(task, "created", change.Created)
}

// member returns an object with one member more.
func member(v any, name string, value any) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	out := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	out[name], err = json.Marshal(value)
	return out, err
}

func schedule(k *k) (any, error) {
	ctx, c, w := k.ctx, k.c, k.with
	task := arg[client.Task](w, "body")
	task.ID = w.text("id")
	return changed(func(whole client.Option) (client.Change, error) {
		return c.Schedule(ctx, task, append(w.options(), whole)...)
	})
}

func touchOf(w with) client.Touch {
	return client.Touch{
		Delay: w.span("delay"), OrSchedule: arg[*client.Task](w, "or_schedule"), Payload: w["payload"],
		Append: arg[[]json.RawMessage](w, "append"),
	}
}

// cleared returns the names of the members that are null, which a patch resets.
func cleared(w with, prefix string) (names []string) {
	for name, value := range w {
		switch {
		case string(value) == "null":
			names = append(names, prefix+name)
		case strings.HasPrefix(string(value), "{") && name != "payload":
			names = append(names, cleared(arg[with](w, name), prefix+name+".")...)
		}
	}
	return names
}

func patchOf(w with) client.Patch {
	task := present[client.Task](w)
	return client.Patch{FireAt: task.FireAt, Delay: w.span("delay"), Payload: task.Payload, Target: task.Target,
		Retry: task.Retry, Labels: task.Labels, Group: task.Group, Priority: task.Priority, Clear: cleared(w, "")}
}

// present reads a value of the members that are not null.
func present[T any](w with) T {
	text, err := json.Marshal(withoutNulls(w))
	if err != nil {
		panic(err)
	}
	return arg[T](with{"value": text}, "value")
}

func withoutNulls(w with) map[string]any {
	out := map[string]any{}
	for name, value := range w {
		switch {
		case string(value) == "null":
		case strings.HasPrefix(string(value), "{") && name != "payload":
			out[name] = withoutNulls(arg[with](w, name))
		default:
			out[name] = value
		}
	}
	return out
}

// collect returns all items of a sequence under a name.
func collect[T any](name string, items iter.Seq2[T, error]) (any, error) {
	all := []T{}
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		all = append(all, item)
	}
	return object{name: all}, nil
}

// list returns a slice under a name.
func list[T any](name string) func(items []T, err error) (any, error) {
	return func(items []T, err error) (any, error) { return object{name: append([]T{}, items...)}, err }
}

func batch(k *k) (any, error) {
	ctx, c, w := k.ctx, k.c, k.with
	var ops []client.Op
	for _, line := range arg[[]with](w, "lines") {
		id, o := line.text("id"), line.options()
		switch line.text("op") {
		case "schedule":
			task := present[client.Task](fields(line))
			task.ID = id
			ops = append(ops, client.ScheduleOp(task, o...))
		case "cancel":
			ops = append(ops, client.CancelOp(id, o...))
		case "fire":
			ops = append(ops, client.FireOp(id, o...))
		case "touch":
			ops = append(ops, client.TouchOp(id, touchOf(line), o...))
		case "patch":
			ops = append(ops, client.PatchOp(id, patchOf(fields(line)), o...))
		}
	}
	results := []object{}
	for r := range c.Batch(ctx, slices.Values(ops)) {
		result := object{"id": r.ID, "status": r.Status, "revision": r.Revision, "previous": r.Previous, "outcome": r.Outcome}
		var problem *client.Error
		if errors.As(r.Err, &problem) {
			result["problem"] = object{"type": problem.Type, "field": problem.Field}
		}
		results = append(results, result)
	}
	return object{"results": results}, nil
}

// fields returns a line of a batch without the members that are not the call's.
func fields(line with) with {
	out := with{}
	for name, value := range line {
		if !slices.Contains([]string{"op", "id", "key", "if_match", "if_none_match"}, name) {
			out[name] = value
		}
	}
	return out
}

func settle(k *k) (any, error) {
	ctx, c, w := k.ctx, k.c, k.with
	b := w.body()
	s := client.Settlement{Ack: arg[[]string](b, "ack"), Release: arg[[]string](b, "release")}
	for _, n := range arg[[]with](b, "nack") {
		nack := client.Nack{Receipt: n.text("receipt"), Reason: n.text("reason")}
		if n["delay"] != nil {
			delay := n.span("delay")
			nack.Delay = &delay
		}
		s.Nack = append(s.Nack, nack)
	}
	for _, e := range arg[[]with](b, "extend") {
		s.Extend = append(s.Extend, client.Extend{Receipt: e.text("receipt"), Lease: e.span("lease")})
	}
	results := []object{}
	for _, r := range c.Settle(ctx, w.text("queue"), s) {
		result := object{"id": r.ID, "status": r.Status}
		var problem *client.Error
		if errors.As(r.Err, &problem) {
			result["problem"] = object{"type": problem.Type}
		}
		results = append(results, result)
	}
	return object{"results": results}, nil
}

func events(k *k) (any, error) {
	ctx, c, w := k.ctx, k.c, k.with
	q := w.query()
	filter := client.EventFilter{Queue: q.text("queue"), Types: arg[[]string](q, "type"), After: q.text("after"),
		Ends: string(q["follow"]) == "false"}
	if since := q.span("since"); since > 0 {
		filter.Since = time.Now().Add(-since)
	}
	all := []*client.Event{}
	for event, err := range c.Events(ctx, filter) {
		if err != nil {
			return nil, err
		}
		if event.Type == client.EventGap {
			continue
		}
		if all = append(all, event); len(all) == arg[int](w, "count") {
			break
		}
	}
	return object{"events": all}, nil
}

// consume handles tasks by a list of outcomes, the last of which repeats, until count handlers have ended.
func consume(k *k) (any, error) {
	ctx, c, w := k.ctx, k.c, k.with
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	outcomes := arg[[]json.RawMessage](w, "outcomes")
	if outcomes == nil {
		outcomes = []json.RawMessage{json.RawMessage(`"ack"`)}
	}
	turns := make(chan int, 1)
	turns <- 0
	var mu sync.Mutex // guards the next two
	handled, ids := []object{}, map[string]bool{}
	err := c.Consume(ctx, w.text("queue"), client.ConsumeOptions{Concurrency: 8, Lease: w.span("lease")},
		func(held context.Context, task *client.Leased) error {
			turn := <-turns
			turns <- turn + 1
			outcome := outcomes[min(turn, len(outcomes)-1)]
			var how with
			if outcome[0] == '{' {
				how = arg[with](with{"how": outcome}, "how")
			}
			seen := object{"id": task.ID, "payload": task.Payload, "attempt": task.Attempt, "fence": task.Fence,
				"webhook_id": task.WebhookID, "lost": false}
			if hold := how.span("hold"); hold > 0 {
				select {
				case <-held.Done():
					seen["lost"] = errors.Is(context.Cause(held), client.ErrLeaseLost)
				case <-time.After(hold):
				}
			}
			mu.Lock()
			handled, ids[task.WebhookID] = append(handled, seen), true
			if len(handled) == arg[int](w, "count") || len(ids) == arg[int](w, "distinct") {
				stop()
			}
			mu.Unlock()
			switch {
			case string(outcome) == `"release"`:
				return client.ErrRelease
			case how.text("fail") != "":
				return errors.New(how.text("fail"))
			case how.text("retry_in") != "":
				return client.RetryIn(how.span("retry_in"), errors.New(how.text("reason")))
			}
			return nil
		})
	return object{"handled": handled, "webhook_ids": len(ids)}, err
}

// operation returns the preview of an operation.
func operation(request func(w, body with) client.OperationRequest) call {
	return func(k *k) (any, error) {
		return k.c.Preview(k.ctx, request(k.with, k.body()))
	}
}

func onNode(kind client.OperationKind) call {
	return operation(func(w, _ with) client.OperationRequest {
		return client.OperationRequest{Kind: kind, Node: w.text("id")}
	})
}

func bulk(k *k) (any, error) {
	ctx, c, w := k.ctx, k.c, k.with
	b := w.body()
	filter := client.BulkFilter{Prefix: arg[with](b, "filter").text("prefix")}
	r := client.BulkRequest{
		Op: arg[client.BulkOp](b, "op"), Schedules: b.text("of") == "schedules", Note: b.text("note"), Filter: filter,
	}
	if patch := arg[any](b, "patch"); patch != nil {
		text, err := json.Marshal(patch)
		if err != nil {
			return nil, err
		}
		r.Patch = text
	}
	if arg[bool](b, "dry_run") {
		matched, complete, err := c.CountBulk(ctx, r)
		return object{"matched": matched, "complete": complete}, err
	}
	return c.BeginBulk(ctx, r, w.options()...)
}

// newKey shows the text of a key, which Secret hides.
func newKey(key *client.NewAPIKey, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return object{"id": key.ID, "name": key.Name, "key": key.Key.Text()}, nil
}

func backup(k *k) (any, error) {
	var file bytes.Buffer
	_, err := k.c.Backup(k.ctx, &file, client.BackupOptions{})
	return object{"bytes": file.Len() > 0}, err
}

func dead(q with) client.DeadFilter {
	return client.DeadFilter{Prefix: q.text("prefix")}
}

func filterOf(q with) client.Filter {
	f := client.Filter{Queue: q.text("queue"), Prefix: q.text("prefix"), Labels: arg[map[string]string](q, "label"),
		PageSize: arg[int](q, "limit"), Payload: q.text("include") == "payload"}
	if state := q.text("state"); state != "" {
		f.States = []client.State{client.State(state)}
	}
	return f
}

func queueOf(w with, body with) client.Queue {
	queue := present[client.Queue](body)
	queue.Name = w.text("queue")
	return queue
}

func queuePatch(w with) client.QueuePatch {
	q := queueOf(w, w.body())
	return client.QueuePatch{Target: q.Target, Retry: q.Retry, MaxInFlight: q.MaxInFlight, MaxPerSecond: q.MaxPerSecond,
		GroupPerSecond: q.GroupPerSecond, Secrets: q.Secrets, Clear: cleared(w.body(), "")}
}

func schedulePatch(w with) client.SchedulePatch {
	s := present[client.Schedule](w.body())
	return client.SchedulePatch{Repeat: &s.Repeat, Misfire: s.Misfire, Overlap: s.Overlap, Note: s.Note,
		Clear: cleared(w.body(), "")}
}

func count(n int, err error) (any, error) { return object{"count": n}, err }

func scheduleOf(w with) client.Schedule {
	s := arg[client.Schedule](w, "body")
	s.ID = w.text("id")
	return s
}
