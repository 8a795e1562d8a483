package httpapi

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/history/feed"
	"github.com/belfryhq/belfry/history/historypb"
	"github.com/belfryhq/belfry/quota"
	"github.com/belfryhq/belfry/repeat/series"
)

// fakeQueues holds the fake's policies, and the signal for waiting leases.
type fakeQueues struct {
	policies map[string]*fsmpb.QueuePolicy // by placeOf
	ready    chan struct{}                 // closed and replaced when a task may have become ready
	leases   []task.LeaseRequest
	waiting  int // Lease calls in progress
}

// wake makes waiting leases look again. The caller holds the lock.
func (f *fakeBackend) wake() {
	if f.queues.ready != nil {
		close(f.queues.ready)
	}
	f.queues.ready = make(chan struct{})
}

func (f *fakeBackend) Lease(ctx context.Context, request task.LeaseRequest) ([]*fsmpb.Task, error) {
	f.mu.Lock()
	f.queues.leases = append(f.queues.leases, request)
	f.queues.waiting++
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.queues.waiting--
		f.mu.Unlock()
	}()
	for {
		f.mu.Lock()
		if f.queues.ready == nil {
			f.wake()
		}
		err, ready := f.readErr, f.queues.ready
		var tasks []*fsmpb.Task
		if !f.grantAtTheEnd || ctx.Err() != nil {
			tasks = f.lease(request)
		}
		f.mu.Unlock()
		if err != nil || len(tasks) > 0 {
			return tasks, err
		}
		select {
		case <-ctx.Done():
			if !f.grantAtTheEnd {
				return nil, nil
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.lease(request), nil
		case <-ready:
		}
	}
}

// lease grants ready tasks, in the order of ids.
func (f *fakeBackend) lease(request task.LeaseRequest) []*fsmpb.Task {
	var tasks []*fsmpb.Task
	for t := range f.within(request.Namespace) {
		if t.State != fsmpb.State_STATE_READY || orElse(t.Spec.Queue, task.DefaultQueue) != request.Queue ||
			len(tasks) == request.Max || f.leaseMost > 0 && len(tasks) == f.leaseMost {
			continue
		}
		f.revision++
		t.State, t.Attempts, t.Fence, t.Revision = fsmpb.State_STATE_FIRING, t.Attempts+1, f.revision, f.revision
		t.Leased, t.LeaseEndMs = true, testNow.Add(request.Lease).UnixMilli()
		tasks = append(tasks, proto.CloneOf(t))
	}
	return tasks
}

// settle ends or extends a lease.
func (f *fakeBackend) settle(t *fsmpb.Task, fence, occurrence uint64, replaceable bool, end func()) *fsmpb.Result {
	if t == nil {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_NOT_FOUND}
	}
	if t.Fence != fence || t.Occurrence != occurrence || !t.Leased {
		if occurrence < t.Occurrence && replaceable {
			return &fsmpb.Result{Code: fsmpb.Code_CODE_REPLACED}
		}
		return &fsmpb.Result{Code: fsmpb.Code_CODE_STALE}
	}
	end()
	f.wake()
	return f.changed(fsmpb.Code_CODE_OK, t, fsmpb.Answer_ANSWER_BRIEF)
}

// consume carries out the commands of consumers and of operators of dead letters. It returns nil for any other command.
func (f *fakeBackend) consume(c *fsmpb.Command, t *fsmpb.Task) *fsmpb.Result {
	switch op := c.Op.(type) {
	case *fsmpb.Command_Settle:
		s := op.Settle
		if s.Verdict == fsmpb.Verdict_VERDICT_DELIVERED && t.GetState() == fsmpb.State_STATE_DELIVERED && t.Fence == s.Fence {
			return &fsmpb.Result{Code: fsmpb.Code_CODE_OK}
		}
		return f.settle(t, s.Fence, s.Occurrence, true, func() { end(t, s) })
	case *fsmpb.Command_Extend:
		e := op.Extend
		return f.settle(t, e.Fence, e.Occurrence, false, func() {
			t.LeaseEndMs = testNow.Add(time.Duration(e.LeaseMs) * time.Millisecond).UnixMilli()
		})
	case *fsmpb.Command_Replay, *fsmpb.Command_Drop:
		return f.undead(c, t)
	}
	return nil
}

func end(t *fsmpb.Task, s *fsmpb.Settle) {
	t.Leased, t.LeaseEndMs = false, 0
	switch s.Verdict {
	case fsmpb.Verdict_VERDICT_DELIVERED:
		t.State = fsmpb.State_STATE_DELIVERED
	case fsmpb.Verdict_VERDICT_RETRY:
		t.State, t.LastError = fsmpb.State_STATE_RETRYING, s.Error
	case fsmpb.Verdict_VERDICT_RELEASED:
		t.State = fsmpb.State_STATE_READY
		t.Attempts--
	}
}

func (f *fakeBackend) undead(c *fsmpb.Command, t *fsmpb.Task) *fsmpb.Result {
	switch {
	case t == nil:
		return &fsmpb.Result{Code: fsmpb.Code_CODE_NOT_FOUND}
	case t.State != fsmpb.State_STATE_DEAD:
		return &fsmpb.Result{Code: fsmpb.Code_CODE_CONFLICT, Task: &fsmpb.Task{State: t.State}}
	case c.GetDrop() != nil:
		delete(f.tasks, placeOf(c.Namespace, c.Id))
		return &fsmpb.Result{Code: fsmpb.Code_CODE_OK}
	}
	t.State, t.Attempts = fsmpb.State_STATE_READY, 0
	f.wake()
	return f.changed(fsmpb.Code_CODE_OK, t, c.Answer)
}

func (f *fakeBackend) PutQueue(_ context.Context, p *fsmpb.QueuePolicy) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readErr != nil {
		return false, f.readErr
	}
	_, existed := f.queues.policies[placeOf(p.Namespace, p.Queue)]
	if f.queues.policies == nil {
		f.queues.policies = map[string]*fsmpb.QueuePolicy{}
	}
	f.queues.policies[placeOf(p.Namespace, p.Queue)] = proto.CloneOf(p)
	return !existed, nil
}

func (f *fakeBackend) UpdateQueue(_ context.Context, namespace, queue string,
	change func(*fsmpb.QueuePolicy) (*fsmpb.QueuePolicy, error)) (*fsmpb.QueuePolicy, error) {
	f.mu.Lock()
	current := f.queues.policies[placeOf(namespace, queue)]
	f.mu.Unlock()
	policy, err := change(current)
	if err != nil {
		return nil, err
	}
	_, err = f.PutQueue(context.Background(), policy)
	return policy, err
}

func (f *fakeBackend) DeleteQueue(_ context.Context, namespace, queue string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, existed := f.queues.policies[placeOf(namespace, queue)]
	delete(f.queues.policies, placeOf(namespace, queue))
	return existed, f.readErr
}

func (f *fakeBackend) Queue(_ context.Context, namespace, queue string) (*fsmpb.QueuePolicy, *fsmpb.QueueCounts, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.queues.policies[placeOf(namespace, queue)], f.counts(namespace, queue), f.readErr
}

func (f *fakeBackend) counts(namespace, queue string) *fsmpb.QueueCounts {
	c := &fsmpb.QueueCounts{Queue: queue}
	for t := range f.within(namespace) {
		if orElse(t.Spec.Queue, task.DefaultQueue) != queue {
			continue
		}
		switch t.State {
		case fsmpb.State_STATE_SCHEDULED:
			c.Scheduled++
			c.Due_1D++
		case fsmpb.State_STATE_READY:
			c.Ready++
			c.OldestOverdueMs = t.FireAtMs
		case fsmpb.State_STATE_FIRING:
			if t.Leased {
				c.Leased++
			} else {
				c.Firing++
			}
		case fsmpb.State_STATE_RETRYING:
			c.Retrying++
		case fsmpb.State_STATE_DELIVERED:
			c.Delivered++
		case fsmpb.State_STATE_DEAD:
			c.Dead++
		case fsmpb.State_STATE_CANCELLED:
			c.Cancelled++
		}
	}
	return c
}

func (f *fakeBackend) Queues(_ context.Context, namespace string) ([]task.Queue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := map[string]bool{}
	for _, p := range f.queues.policies {
		if task.CanonicalNamespace(p.Namespace) == namespace {
			names[p.Queue] = true
		}
	}
	for t := range f.within(namespace) {
		names[orElse(t.Spec.Queue, task.DefaultQueue)] = true
	}
	var out []task.Queue
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = append(out, task.Queue{
			Policy: f.queues.policies[placeOf(namespace, name)], Counts: f.counts(namespace, name),
		})
	}
	return out, f.readErr
}

// fakeEvents is the history of one shard.
type fakeEvents struct {
	mu    sync.Mutex
	kept  []*historypb.Event // with ascending indexes
	since time.Time          // zero: nothing is gone
	gone  uint64             // index of the last event that is gone
	err   error
	more  chan struct{} // closed at the next event
}

func newFakeEvents() *fakeEvents { return &fakeEvents{more: make(chan struct{})} }

func (f *fakeEvents) add(e *historypb.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.Shard, e.Index, e.Namespace = 3, uint64(len(f.kept)+1), "default"
	f.kept = append(f.kept, e)
	close(f.more)
	f.more = make(chan struct{})
}

func (f *fakeEvents) Task(_ context.Context, _, id string, limit int) (feed.Story, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	story := feed.Story{Since: f.since}
	for _, e := range f.kept {
		if e.Task == id {
			story.Events = append(story.Events, e)
		}
	}
	if len(story.Events) > limit {
		story.Events, story.More = story.Events[:limit], true
	}
	return story, f.err
}

func (f *fakeEvents) Present(context.Context, string) (feed.Cursor, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return feed.Cursor{}.With(3, historypb.Position{Index: uint64(len(f.kept)), Number: 1}), f.err
}

func (f *fakeEvents) Read(
	ctx context.Context, _ string, after feed.Cursor, filter feed.Filter, limit int, wait time.Duration,
) (feed.Page, error) {
	f.mu.Lock()
	more := f.more
	page, err := f.read(after, filter, limit)
	f.mu.Unlock()
	if err != nil || len(page.Entries) > 0 || page.Next.String() != after.String() || wait == 0 {
		return page, err
	}
	select {
	case <-more:
	case <-ctx.Done():
	case <-time.After(wait):
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read(after, filter, limit)
}

func (f *fakeEvents) read(after feed.Cursor, filter feed.Filter, limit int) (feed.Page, error) {
	page := feed.Page{Next: after}
	at := after.At(3)
	if at.Index > 0 && at.Index < f.gone {
		return page, &feed.GoneError{Since: f.since}
	}
	page.Gapped = f.gone > 0 && at.Index == 0
	for _, e := range f.kept {
		if !e.Position().After(at) || e.Index <= f.gone || len(page.Entries) == limit {
			continue
		}
		page.Next = page.Next.With(3, e.Position())
		if matches(e, filter) {
			page.Entries = append(page.Entries, feed.Entry{Event: e, Cursor: page.Next})
		}
	}
	return page, f.err
}

func matches(e *historypb.Event, f feed.Filter) bool {
	for _, l := range f.Labels {
		if !slices.ContainsFunc(e.Labels, func(of *historypb.Label) bool { return of.Name == l.Name && of.Value == l.Value }) {
			return false
		}
	}
	return (f.Queue == "" || f.Queue == e.Queue) && strings.HasPrefix(e.Task, f.Prefix) &&
		(len(f.Types) == 0 || slices.Contains(f.Types, e.Type)) && e.AtMs >= f.Since.UnixMilli()
}

// fakeAccess holds the fake's keys and namespaces.
type fakeAccess struct {
	keys       []access.KeyRecord     // by id
	quotas     map[string]view.Quotas // of keys
	namespaces map[string]view.Namespace
	lasting    bool // RemoveKey answers as usual, and removes none
}

func (f *fakeBackend) Keys() []access.KeyRecord {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.access.keys)
}

func (f *fakeBackend) NewKey(_ context.Context, r KeyRequest) (string, access.KeyRecord, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readErr != nil {
		return "", access.KeyRecord{}, f.readErr
	}
	id, text := access.NewKey()
	key := access.KeyRecord{ID: id, Name: r.Name, Grants: r.Grants, Expires: r.Expires, Created: testNow,
		Secrets: []access.KeySecret{{Hash: access.Hash(text)}}}
	f.access.keys = append(f.access.keys, key)
	if f.access.quotas == nil {
		f.access.quotas = map[string]view.Quotas{}
	}
	f.access.quotas[id] = r.Quotas
	return text, key, nil
}

func (f *fakeBackend) KeyLimits(id string) quota.Limits {
	f.mu.Lock()
	defer f.mu.Unlock()
	return quota.Limits(f.access.quotas[id])
}

func (f *fakeBackend) Weight(string) int { return 1 }

// NamespaceUse counts the tasks and the bytes of their payloads.
func (f *fakeBackend) NamespaceUse(_ context.Context, name string) (task.NamespaceUse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	usage := task.NamespaceUse{Namespace: name}
	for t := range f.within(name) {
		switch {
		case t.State == fsmpb.State_STATE_DEAD:
			usage.Dead++
		case !tombstone(t):
			usage.Pending++
		}
		usage.Bytes += uint64(len(t.Spec.GetPayload()))
	}
	return usage, f.readErr
}

func (f *fakeBackend) at(id string) int {
	return slices.IndexFunc(f.access.keys, func(k access.KeyRecord) bool { return k.ID == id })
}

// RotateKey refuses a third secret.
func (f *fakeBackend) JWTKeySet(context.Context) ([]byte, error) { return f.keySet, f.readErr }

func (f *fakeBackend) RotateJWTKeys(_ context.Context, overlap time.Duration) ([]view.JWTKey, error) {
	if overlap == time.Second {
		return nil, &task.FieldError{Field: "overlap", Detail: "is out of range", Limit: "0s, or 15m to 30d"}
	}
	ends := testNow.Add(overlap)
	return []view.JWTKey{
		{ID: "old", Algorithm: "EdDSA", MadeAt: testNow, SignsAt: testNow, EndsAt: &ends},
		{ID: "new", Algorithm: "EdDSA", MadeAt: testNow, SignsAt: testNow.Add(overlap / 2)},
	}, f.readErr
}

func (f *fakeBackend) RotateKey(
	_ context.Context, id string, overlap time.Duration,
) (string, access.KeyRecord, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.at(id)
	switch {
	case f.readErr != nil || i < 0:
		return "", access.KeyRecord{}, false, f.readErr
	case len(f.access.keys[i].Secrets) > 1:
		return "", access.KeyRecord{}, true, &task.ImpossibleError{Reason: "the key has two secrets"}
	}
	k, text := &f.access.keys[i], access.NewSecret(id)
	k.Secrets[0].Expires = testNow.Add(overlap)
	k.Secrets = append(k.Secrets, access.KeySecret{Hash: access.Hash(text)})
	return text, *k, true, nil
}

func (f *fakeBackend) RemoveKey(_ context.Context, id string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.at(id)
	if f.readErr != nil || i < 0 {
		return false, f.readErr
	}
	if !f.access.lasting {
		f.access.keys = slices.Delete(f.access.keys, i, i+1)
	}
	return true, nil
}

func (f *fakeBackend) NamespaceActive(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return name == "" || f.access.namespaces[name].State == "active" // "" is the default one, as in commands
}

func (f *fakeBackend) Namespaces() []view.Namespace {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []view.Namespace
	for _, name := range slices.Sorted(maps.Keys(f.access.namespaces)) {
		all = append(all, f.access.namespaces[name])
	}
	return all
}

func (f *fakeBackend) PutNamespace(_ context.Context, name string, q quota.Limits) (view.Namespace, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, existed := f.access.namespaces[name]
	if f.readErr != nil {
		return old, false, f.readErr
	}
	made := view.Namespace{Name: name, Quotas: view.Quotas(q), State: "active", CreatedAt: view.InstantOf(testNow.UnixMilli())}
	if existed {
		made.CreatedAt = old.CreatedAt
	}
	f.access.namespaces[name] = made
	return made, !existed, nil
}

func (f *fakeBackend) DeleteNamespace(_ context.Context, name string) (*view.Operation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, existed := f.access.namespaces[name]
	if f.readErr != nil || !existed {
		return nil, f.readErr
	}
	n.State = "deleting"
	f.access.namespaces[name] = n
	op := view.Operation{ID: "op-delete-" + name, Kind: "delete_namespace", Namespace: name, State: isRunning,
		BeganAt: view.InstantOf(testNow.UnixMilli())}
	f.operations = append(f.operations, op)
	return &op, nil
}

// aboutSeries carries out a command about the schedule t, which may be nil. It returns nil for other commands.
func (f *fakeBackend) aboutSeries(c *fsmpb.Command, t *fsmpb.Task) *fsmpb.Result {
	switch c.Op.(type) {
	case *fsmpb.Command_SetSeries:
		return f.setSeries(c, t)
	case *fsmpb.Command_PauseSeries, *fsmpb.Command_StartOccurrence, *fsmpb.Command_SkipOccurrence,
		*fsmpb.Command_Backfill, *fsmpb.Command_Erase:
	default:
		return nil
	}
	if t == nil {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_NOT_FOUND}
	}
	if c.GetErase() != nil {
		delete(f.tasks, placeOf(c.Namespace, c.Id))
		return &fsmpb.Result{Code: fsmpb.Code_CODE_OK}
	}
	if !f.changeSeries(c, t, t.Series) {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_CONFLICT, Revision: t.Revision, Task: &fsmpb.Task{State: t.State}}
	}
	result := f.changed(fsmpb.Code_CODE_OK, t, c.Answer)
	if c.GetStartOccurrence() != nil {
		result.Number = t.Series.Last
	}
	return result
}

func (f *fakeBackend) setSeries(c *fsmpb.Command, old *fsmpb.Task) *fsmpb.Result {
	set := proto.CloneOf(c.GetSetSeries())
	set.Spec.Target = task.KeepMasked(set.Spec.Target, old.GetSpec().GetTarget())
	if err := task.CheckMasked(set.Spec.Target); err != nil {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_INVALID, Field: err.Field, Detail: err.Detail}
	}
	code, next := fsmpb.Code_CODE_CREATED, set.Series
	t := &fsmpb.Task{Namespace: c.Namespace, Id: c.Id, State: fsmpb.State_STATE_REPEATING, Spec: set.Spec,
		CreatedAtMs: set.ReceivedAtMs, Series: next, Shard: task.Slot("", c.Id) % 12}
	if old != nil {
		code, t.CreatedAtMs = fsmpb.Code_CODE_OK, old.CreatedAtMs
		next.Last, next.Ruled, next.Live, next.Queued = old.Series.Last, old.Series.Ruled, old.Series.Live, old.Series.Queued
		next.Past, next.Started, next.Passed = old.Series.Past, old.Series.Started, old.Series.Passed
	}
	if next.Repeat.EveryMs > 0 && next.Repeat.AnchorMs == nil {
		next.Repeat.AnchorMs = proto.Int64(set.ReceivedAtMs)
	}
	next.AfterMs = set.ReceivedAtMs
	lead(next)
	f.tasks[placeOf(c.Namespace, c.Id)] = t
	return f.changed(code, t, c.Answer)
}

// lead adds coming instants to a schedule, as the leader of its shard does.
func lead(s *fsmpb.Series) {
	s.Next, s.Complete = nil, false
	rule, err := series.RuleOf(s.Repeat, nil)
	if err != nil || s.Paused {
		return
	}
	for after := testNow; len(s.Next) < 2; {
		o, ok := rule.Next(after)
		if !ok || s.Repeat.Count > 0 && int64(s.Ruled)+int64(len(s.Next)) == s.Repeat.Count {
			s.Complete = true
			return
		}
		s.Next = append(s.Next, &fsmpb.Instant{ScheduledMs: o.At.UnixMilli(), FireMs: o.At.UnixMilli() + s.Repeat.JitterMs/2})
		after = o.At
	}
}

// changeSeries reports whether the schedule allows a command.
func (f *fakeBackend) changeSeries(c *fsmpb.Command, t *fsmpb.Task, s *fsmpb.Series) bool {
	switch op := c.Op.(type) {
	case *fsmpb.Command_PauseSeries:
		s.Paused, s.Note = op.PauseSeries.Paused, op.PauseSeries.Note
		lead(s)
	case *fsmpb.Command_SkipOccurrence:
		if len(s.Next) == 0 {
			return false
		}
		s.Last, s.Passed, s.Ruled = s.Last+1, s.Passed+1, s.Ruled+1
		s.Past = append(s.Past, &fsmpb.Occurrence{Number: s.Last, ScheduledMs: s.Next[0].ScheduledMs,
			Passed: fsmpb.Passed_PASSED_CALL})
		s.Next = s.Next[1:]
	case *fsmpb.Command_StartOccurrence:
		if s.Overlap == fsmpb.Overlap_OVERLAP_SKIP && len(s.Live) > 0 {
			return false
		}
		f.begin(t, &fsmpb.Occurrence{ScheduledMs: testNow.UnixMilli(), Origin: fsmpb.Origin_ORIGIN_CALL})
	case *fsmpb.Command_Backfill:
		if len(op.Backfill.ScheduledMs)+len(s.Queued) > task.MaxQueuedOccurrences {
			return false
		}
		for _, ms := range op.Backfill.ScheduledMs {
			s.Last++
			s.Queued = append(s.Queued, &fsmpb.Occurrence{Number: s.Last, ScheduledMs: ms, Origin: fsmpb.Origin_ORIGIN_BACKFILL})
		}
	}
	return true
}

// begin makes the task of an occurrence of the schedule t.
func (f *fakeBackend) begin(t *fsmpb.Task, o *fsmpb.Occurrence) {
	s := t.Series
	s.Last, s.Started = s.Last+1, s.Started+1
	o.Number, o.FireMs = s.Last, o.ScheduledMs
	s.Live = append(s.Live, o)
	name, _ := task.SplitSeries(t.Id)
	id := task.OccurrenceID(name, o.Number)
	f.revision++
	f.tasks[placeOf(t.Namespace, id)] = &fsmpb.Task{Namespace: t.Namespace, Id: id, Spec: proto.CloneOf(t.Spec),
		State: fsmpb.State_STATE_SCHEDULED, FireAtMs: o.FireMs, CreatedAtMs: o.FireMs, Revision: f.revision,
		Shard: t.Shard}
}
