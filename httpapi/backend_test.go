package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/repeat/series"
)

// fakeBackend is a cluster made of one map. It carries out as much of each command as answers show.
type fakeBackend struct {
	// do, if set, may answer in the fake's place. For nil replies the map answers.
	do func(ctx context.Context, cmds []*fsmpb.Command) []task.Reply

	mu       sync.Mutex
	tasks    map[string]*fsmpb.Task           // by placeOf
	keys     map[string]map[uint64]remembered // by placeOf
	seen     []*fsmpb.Command
	revision uint64
	readErr  error
	tokens   []view.JoinToken
	access   fakeAccess
	ready    error
	queries  []*fsmpb.ListQuery
	stale    bool
	queues   fakeQueues

	calendars map[string]*fsmpb.Calendar // by placeOf

	// These take the place of the usual ones, if they are set.
	backup func(ctx context.Context, w io.Writer, rate int64) (BackupSummary, error)
	list   func(ctx context.Context, q *fsmpb.ListQuery) (*fsmpb.ListPage, error)
	doctor func(ctx context.Context) []view.Finding

	receiptKey receiptKey
	keySet     []byte

	grantAtTheEnd bool // a lease returns its tasks only when its context ends
	leaseMost     int  // most tasks of one lease; 0: as requested
	findings      []view.Finding
	operations    []view.Operation // begun, the last one at the end
	bulks         []BulkRequest    // begun
	counted       []BulkRequest
}

// Begin begins an operation on the node n1 of the name one, and refuses to remove it. There are the nodes a, b and c,
// too. A factor above 5 is impossible, and
// so is a shard above 9.
func (f *fakeBackend) Begin(_ context.Context, r OperationRequest) (*view.Operation, *view.Plan, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.readErr != nil:
		return nil, nil, f.readErr
	case !slices.Contains([]string{"", "n1", "one", "a", "b", "c"}, r.Node):
		return nil, nil, fmt.Errorf("%w: no such node", task.ErrNoNode)
	case r.Kind == "remove" && r.Node == "n1" || r.Replication > 5 || r.Shard > 9 || r.To > 9:
		return nil, nil, &task.ImpossibleError{Reason: "no other node"}
	case r.Preview:
		add := view.PlanStep{Shard: 1, Action: "add", Node: "n2", Bytes: 7}
		return nil, &view.Plan{Kind: view.OperationKind(r.Kind), Total: 1, Steps: []view.PlanStep{add}}, nil
	}
	for i := range f.operations {
		if f.operations[i].ID == r.ID {
			return &f.operations[i], nil, nil
		}
	}
	op := view.Operation{
		ID: orElse(r.ID, fmt.Sprintf("op-%d", len(f.operations))), Kind: view.OperationKind(r.Kind), State: "running",
		Replication: int(r.Replication), Shard: int(r.Shard), To: int(r.To), Slots: r.Slots.String(),
		BeganAt: view.InstantOf(testNow.UnixMilli()), Total: 1,
	}
	if op.Node = r.Node; r.Node == "n1" || r.Node == "one" {
		op.Node, op.NodeName = "n1", "one"
	}
	f.operations = append(f.operations, op)
	return &op, nil, nil
}

func (f *fakeBackend) Doctor(ctx context.Context) []view.Finding {
	if f.doctor != nil {
		return f.doctor(ctx)
	}
	return f.findings
}

type remembered struct {
	call   uint64
	result *fsmpb.Result
}

func newFake() *fakeBackend {
	f := &fakeBackend{
		tasks: map[string]*fsmpb.Task{}, keys: map[string]map[uint64]remembered{}, receiptKey: testKey,
		keySet: []byte(`{"keys":[{"kty":"OKP","kid":"k","alg":"EdDSA","use":"sig","crv":"Ed25519","x":"a"}]}`),
	}
	f.access.namespaces = map[string]view.Namespace{}
	for _, name := range []string{"default", "a", "b"} {
		f.access.namespaces[name] = view.Namespace{Name: name, State: "active"}
	}
	return f
}

func (f *fakeBackend) Do(ctx context.Context, cmds []*fsmpb.Command) []task.Reply {
	if f.do != nil {
		if replies := f.do(ctx, cmds); replies != nil {
			return replies
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var replies []task.Reply
	for _, c := range cmds {
		f.seen = append(f.seen, c)
		replies = append(replies, task.Reply{Result: f.once(c)})
	}
	return replies
}

func (f *fakeBackend) once(c *fsmpb.Command) *fsmpb.Result {
	if c.Key == nil {
		return f.apply(c)
	}
	if old, ok := f.keys[placeOf(c.Namespace, c.Id)][c.Key.Hash]; ok {
		if old.call != c.Key.Call {
			return &fsmpb.Result{Code: fsmpb.Code_CODE_KEY_REUSED}
		}
		r := proto.CloneOf(old.result)
		r.Repeated = true
		if c.Answer != fsmpb.Answer_ANSWER_BRIEF && r.Task == nil { // the first call was a batch line
			r.Task = proto.CloneOf(f.tasks[placeOf(c.Namespace, c.Id)])
		}
		return r
	}
	r := f.apply(c)
	if f.keys[placeOf(c.Namespace, c.Id)] == nil {
		f.keys[placeOf(c.Namespace, c.Id)] = map[uint64]remembered{}
	}
	f.keys[placeOf(c.Namespace, c.Id)][c.Key.Hash] = remembered{c.Key.Call, r}
	return r
}

func (f *fakeBackend) apply(c *fsmpb.Command) *fsmpb.Result {
	t := f.tasks[placeOf(c.Namespace, c.Id)]
	if !holds(c.Condition, t) {
		r := &fsmpb.Result{Code: fsmpb.Code_CODE_PRECONDITION_FAILED, Revision: t.GetRevision()}
		if c.Condition.Absent {
			r.Task = proto.CloneOf(t)
		}
		return r
	}
	if r := f.consume(c, t); r != nil {
		return r
	}
	if r := f.aboutSeries(c, t); r != nil {
		return r
	}
	touch := c.GetTouch()
	if s := c.GetSchedule(); s != nil {
		return f.schedule(c, t, s)
	}
	if touch != nil && (t == nil || tombstone(t)) && touch.OrSchedule != nil {
		return f.schedule(c, t, touch.OrSchedule)
	}
	if t == nil {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_NOT_FOUND}
	}
	if c.GetCancel() != nil {
		return f.cancel(t)
	}
	if t.State != fsmpb.State_STATE_SCHEDULED {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_CONFLICT, Task: &fsmpb.Task{State: t.State, Attempts: t.Attempts}}
	}
	if touch != nil {
		if touch.DelayMs == nil {
			return &fsmpb.Result{Code: fsmpb.Code_CODE_NO_DELAY}
		}
		t.FireAtMs = touch.ReceivedAtMs + *touch.DelayMs
	}
	if p := c.GetPatch(); p != nil {
		if p.FireAtMs != nil {
			t.FireAtMs = *p.FireAtMs
		}
		if merged := task.MergeSpec(t.Spec, p); task.CheckMasked(merged.Target) == nil {
			t.Spec = merged
		}
	}
	return f.changed(fsmpb.Code_CODE_OK, t, c.Answer)
}

func (f *fakeBackend) changed(code fsmpb.Code, t *fsmpb.Task, answer fsmpb.Answer) *fsmpb.Result {
	f.revision++
	t.Revision = f.revision
	r := &fsmpb.Result{Code: code, Revision: t.Revision}
	if answer != fsmpb.Answer_ANSWER_BRIEF {
		r.Task = proto.CloneOf(t)
	}
	if answer == fsmpb.Answer_ANSWER_TASK {
		r.Task.Spec.Payload = nil
	}
	return r
}

func (f *fakeBackend) schedule(c *fsmpb.Command, old *fsmpb.Task, s *fsmpb.Schedule) *fsmpb.Result {
	spec := proto.CloneOf(s.Spec)
	spec.Target = task.KeepMasked(spec.Target, old.GetSpec().GetTarget())
	if err := task.CheckMasked(spec.Target); err != nil {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_INVALID, Field: err.Field, Detail: err.Detail}
	}
	t := &fsmpb.Task{Namespace: c.Namespace, Id: c.Id, Spec: spec, FireAtMs: s.FireAtMs, CreatedAtMs: s.ReceivedAtMs,
		State: fsmpb.State_STATE_SCHEDULED, Shard: task.Slot("", c.Id) % 12}
	f.tasks[placeOf(c.Namespace, c.Id)] = t
	code := fsmpb.Code_CODE_CREATED
	if old != nil && !tombstone(old) {
		code = fsmpb.Code_CODE_OK
	}
	r := f.changed(code, t, c.Answer)
	r.Previous = old.GetState()
	return r
}

func (f *fakeBackend) cancel(t *fsmpb.Task) *fsmpb.Result {
	if t.Outcome == fsmpb.CancelOutcome_CANCEL_OUTCOME_UNSPECIFIED {
		t.State, t.Outcome = fsmpb.State_STATE_CANCELLED, fsmpb.CancelOutcome_CANCEL_OUTCOME_CANCELLED
		t.Spec.Payload, t.Spec.PayloadIsBytes = nil, false
	}
	r := f.changed(fsmpb.Code_CODE_OK, t, fsmpb.Answer_ANSWER_BRIEF)
	r.Outcome = t.Outcome
	return r
}

func holds(c *fsmpb.Condition, t *fsmpb.Task) bool {
	if c.GetAbsent() && t != nil || c.GetPresent() && t == nil {
		return false
	}
	ok := len(c.GetRevisions()) == 0
	for _, r := range c.GetRevisions() {
		ok = ok || t != nil && t.Revision == r
	}
	return ok
}

func tombstone(t *fsmpb.Task) bool { return t.State >= fsmpb.State_STATE_DELIVERED }

func (f *fakeBackend) Get(_ context.Context, namespace, id string, stale bool) (*fsmpb.Task, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stale = stale
	t := f.tasks[placeOf(namespace, id)]
	if f.readErr != nil || t == nil {
		return nil, f.readErr
	}
	return proto.CloneOf(t), nil
}

// dueIn returns the instant by which a query sorts a task: 0 unless it is in due order.
func dueIn(q *fsmpb.ListQuery, t *fsmpb.Task) int64 {
	if q.Order == fsmpb.ListOrder_LIST_ORDER_ID {
		return 0
	}
	return cmp.Or(t.NextAttemptAtMs, t.FireAtMs)
}

func (f *fakeBackend) List(ctx context.Context, q *fsmpb.ListQuery) (*fsmpb.ListPage, error) {
	if f.list != nil {
		if page, err := f.list(ctx, q); page != nil || err != nil {
			return page, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queries = append(f.queries, q)
	if f.readErr != nil {
		return nil, f.readErr
	}
	var found []*fsmpb.Task
	for t := range f.within(q.Namespace) {
		id := t.Id
		slot := task.Slot("", id)
		after := cmp.Or(cmp.Compare(dueIn(q, t), q.AfterDueMs), cmp.Compare(slot, q.Slot), cmp.Compare(id, q.AfterId)) > 0
		ended := t.State >= fsmpb.State_STATE_DELIVERED && t.State <= fsmpb.State_STATE_CANCELLED
		if q.Order == fsmpb.ListOrder_LIST_ORDER_DUE && len(q.States) == 0 && ended {
			continue
		}
		asked := (q.Queue == "" || q.Queue == orElse(t.Spec.GetQueue(), task.DefaultQueue)) &&
			(len(q.States) == 0 && t.Series == nil || slices.Contains(q.States, t.State))
		if after && asked && strings.HasPrefix(id, q.Prefix) {
			found = append(found, proto.CloneOf(t))
		}
	}
	sort.Slice(found, func(i, j int) bool {
		a, b := found[i], found[j]
		return cmp.Or(cmp.Compare(dueIn(q, a), dueIn(q, b)), cmp.Compare(task.Slot("", a.Id), task.Slot("", b.Id)),
			cmp.Compare(a.Id, b.Id)) < 0
	})
	page := &fsmpb.ListPage{Tasks: found}
	if len(found) > int(q.Limit) {
		page.Tasks = found[:q.Limit]
		last := page.Tasks[q.Limit-1]
		page.More, page.AfterDueMs, page.Slot, page.AfterId = true, dueIn(q, last), task.Slot("", last.Id), last.Id
	}
	return page, nil
}

func (f *fakeBackend) Cluster(context.Context) (view.Cluster, error) {
	if f.readErr != nil {
		return view.Cluster{}, f.readErr
	}
	return view.Cluster{
		ID: "c1", Map: f.MapVersion(), CommandVersion: 1,
		Nodes: []view.Node{{ID: "n1", Name: "one", HTTPAddr: "127.0.0.1:8400", HTTPURL: "http://127.0.0.1:8400",
			Alive: true, ClockOffsetMs: -0.25,
			Order: "work"}},
		Operations: slices.Clone(f.operations), Replication: view.ReplicaCounts{Wanted: 3, Fewest: 3},
		Control: view.ControlGroup{Leader: "n1", Term: 2, Voters: []string{"n1"}},
		Shards:  []view.Shard{{ID: 1, Leader: "n1", Term: 3, Slots: view.SlotList{{First: 0, End: task.Slots}}}, {ID: 2}},
		Backups: &view.Backups{
			Running: &view.BackupTry{Node: "n1", BegunAt: view.InstantOf(2000), SeenAt: view.InstantOf(2500)},
			LastKept: &view.BackupTry{
				Node: "n1", BegunAt: view.InstantOf(1000), SeenAt: view.InstantOf(1500), Place: "/b", Bytes: 7,
			},
			LastFailed: &view.BackupTry{
				Node: "n1", BegunAt: view.InstantOf(0), SeenAt: view.InstantOf(500), Error: "no leader",
			},
		},
	}, nil
}

// Backup writes a backup in two writes; f.backup may replace it.
func (f *fakeBackend) Backup(ctx context.Context, w io.Writer, rate int64) (BackupSummary, error) {
	if f.backup != nil {
		return f.backup(ctx, w, rate)
	}
	if f.readErr != nil {
		return BackupSummary{}, f.readErr
	}
	for _, text := range []string{"back", "up"} {
		if _, err := io.WriteString(w, text); err != nil {
			return BackupSummary{}, err
		}
	}
	return BackupSummary{SHA256: "abc", Shards: []BackupShard{{1, 7, 1000}, {2, 8, 2500}}}, nil
}

func (f *fakeBackend) NewJoinToken(_ context.Context, life time.Duration) (view.NewJoinToken, error) {
	if f.readErr != nil {
		return view.NewJoinToken{}, f.readErr
	}
	created := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	made := view.JoinToken{ID: "kq3v7d2a", Created: created, Expires: created.Add(life)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tokens = append(f.tokens, made)
	return view.NewJoinToken{JoinToken: made, Token: "belfry-join-secret", Required: true}, nil
}

func (f *fakeBackend) JoinTokens() []view.JoinToken {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.tokens)
}

func (f *fakeBackend) RemoveJoinToken(_ context.Context, id string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.tokens)
	f.tokens = slices.DeleteFunc(f.tokens, func(t view.JoinToken) bool { return t.ID == id })
	return len(f.tokens) < before, f.readErr
}

// placeOf returns the key of an id, or of a queue, in the fake's maps.
func placeOf(namespace, name string) string {
	if namespace == "" || namespace == task.DefaultNamespace {
		return name
	}
	return namespace + "/" + name
}

// within returns the tasks of a namespace, in the order of their ids.
func (f *fakeBackend) within(namespace string) iter.Seq[*fsmpb.Task] {
	return func(yield func(*fsmpb.Task) bool) {
		for _, place := range slices.Sorted(maps.Keys(f.tasks)) {
			if t := f.tasks[place]; task.CanonicalNamespace(t.Namespace) == namespace && !yield(t) {
				return
			}
		}
	}
}

func (f *fakeBackend) ReceiptKey() []byte { return f.receiptKey }

func (f *fakeBackend) Self() (clusterID, nodeID string) { return "c1", "n1" }

func (f *fakeBackend) Map() view.Map {
	return view.Map{
		ClusterID: "c1", Version: f.MapVersion(), Nodes: []view.MapNode{{ID: "n1", URL: "http://127.0.0.1:8400"}},
		Shards: []view.MapShard{{ID: 1, Leader: "n1", Slots: view.SlotList{{First: 0, End: task.Slots}}}, {ID: 2}},
	}
}

func (f *fakeBackend) MapVersion() string { return "m1" }

func (f *fakeBackend) Ready() error { return f.ready }

// last returns the newest command that reached the map.
func (f *fakeBackend) last() *fsmpb.Command {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.seen) == 0 {
		return nil
	}
	return f.seen[len(f.seen)-1]
}

// set puts a task into a state that only attempts can reach.
func (f *fakeBackend) set(id string, state fsmpb.State, attempts uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tasks[id].State, f.tasks[id].Attempts = state, attempts
}

// BeginBulk begins a bulk operation, whose namespace may not be full.
func (f *fakeBackend) BeginBulk(_ context.Context, r BulkRequest) (*view.Operation, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.readErr != nil:
		return nil, false, f.readErr
	case r.Filter.Queue == "full":
		return nil, false, &task.ImpossibleError{Reason: "too many bulk operations are under way"}
	}
	for i := range f.operations {
		if f.operations[i].ID == r.ID {
			same := func(b BulkRequest) bool { return b.ID == r.ID && b.Call == r.Call }
			return &f.operations[i], slices.ContainsFunc(f.bulks, same), nil
		}
	}
	f.bulks = append(f.bulks, r)
	filter, matched := &view.Filter{Queue: r.Filter.Queue, Prefix: r.Filter.Prefix}, 7
	for _, l := range r.Filter.Labels {
		filter.Labels = append(filter.Labels, l.Name+":"+l.Value)
	}
	for _, s := range r.Filter.States {
		filter.States = append(filter.States, view.TaskState(stateName(s)))
	}
	op := view.Operation{
		ID: orElse(r.ID, fmt.Sprintf("op-%d", len(f.operations))), Kind: bulkKind, State: isRunning, Namespace: r.Namespace,
		BeganAt: view.InstantOf(testNow.UnixMilli()), Total: 7, Done: 5, Percent: 12.5, Op: view.BulkOp(r.Op), Filter: filter,
		All: r.All, By: view.Span(r.ByMs), FireAt: view.OptionalInstant(r.ToMs), Patched: task.Patched(r.Patch),
		PerSecond: int(r.PerSecond), Matched: &matched, Outcomes: map[string]int{"cancelled": 4, "gone": 1},
	}
	f.operations = append(f.operations, op)
	return &f.operations[len(f.operations)-1], true, nil
}

// CountBulk counts three tasks.
func (f *fakeBackend) CountBulk(_ context.Context, r BulkRequest) (matched uint64, all bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counted = append(f.counted, r)
	return 3, r.Filter.Queue != "large", f.readErr
}

// StopBulk stops a bulk operation.
func (f *fakeBackend) StopBulk(_ context.Context, id string) (*view.Operation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readErr != nil {
		return nil, f.readErr
	}
	for i := range f.operations {
		if f.operations[i].ID == id {
			f.operations[i].State, f.operations[i].EndedAt = "stopped", view.OptionalInstant(testNow.UnixMilli())
			return &f.operations[i], nil
		}
	}
	return nil, &task.ImpossibleError{Reason: "there is none"}
}

func (f *fakeBackend) PutCalendar(_ context.Context, c *fsmpb.Calendar) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	place := placeOf(c.Namespace, c.Name)
	old, existed := f.calendars[place]
	if f.calendars == nil {
		f.calendars = map[string]*fsmpb.Calendar{}
	}
	f.calendars[place] = proto.CloneOf(c)
	f.calendars[place].Version = old.GetVersion() + 1
	return !existed, f.readErr
}

func (f *fakeBackend) DeleteCalendar(_ context.Context, namespace, name string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, existed := f.calendars[placeOf(namespace, name)]
	delete(f.calendars, placeOf(namespace, name))
	return existed, f.readErr
}

func (f *fakeBackend) Calendars(namespace string) []*fsmpb.Calendar {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.Collect(maps.Values(f.calendars))
	all = slices.DeleteFunc(all, func(c *fsmpb.Calendar) bool {
		return task.CanonicalNamespace(c.Namespace) != task.CanonicalNamespace(namespace)
	})
	slices.SortFunc(all, func(a, b *fsmpb.Calendar) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (f *fakeBackend) Calendar(namespace, name string) (*calendar.Calendar, uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	stored := f.calendars[placeOf(namespace, name)]
	if stored == nil {
		return nil, 0
	}
	c, err := calendar.New(series.CalendarOf(stored))
	if err != nil {
		panic(err) // the server has checked it
	}
	return c, stored.Version
}

// Outlook returns one row of the wheel, whose counts name the shard. Shard 9 does not answer.
func (f *fakeBackend) Outlook(_ context.Context, shard uint32) (*fsmpb.Outlook, []uint32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if shard == 9 || f.readErr != nil {
		return &fsmpb.Outlook{}, []uint32{9}, f.readErr
	}
	now := testNow.UnixMilli()
	return &fsmpb.Outlook{
		NowMs: now, Waiting: 70, Beside: 6, Within: []uint64{1, 2, 3, 4, 5}, FirstMs: now / 4000 * 4000, Steps: []uint64{7, 8},
		Rows: []*fsmpb.WheelRow{
			{Level: 1, FirstMs: now / 4096 * 4096, SlotMs: 64, Tasks: slices.Repeat([]uint64{uint64(shard) + 1}, 64)},
		},
	}, nil, nil
}

// Activity returns a step at the instant after afterMs.
func (f *fakeBackend) Activity(_ context.Context, shard uint32, afterMs int64) (*fsmpb.Activity, []uint32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	step := &fsmpb.ActivityStep{
		AtMs: afterMs + 1, Scheduled: uint64(shard), Fired: 2, Delivered: 3, Failed: 4, Dead: 5, Cancelled: 6, Skipped: 7,
		Late: slices.Repeat([]uint64{8}, len(task.LatenessBounds)+1), Held: []uint64{9},
	}
	return &fsmpb.Activity{SinceMs: 1000, Steps: []*fsmpb.ActivityStep{step}}, []uint32{2}, f.readErr
}
