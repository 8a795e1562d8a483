package fsm

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
	"github.com/belfryhq/belfry/fsm/task"
)

// A list by labels, by due times or in due order finds the tasks that a list of all tasks has with these labels and due
// times, page by page, after any history. A task that is there from the first page to the last, in due order with the
// same instant, appears once.
func TestListByLabelEqualsScan(t *testing.T) { rapid.Check(t, listByLabelEqualsScan) }

func FuzzListByLabel(f *testing.F) {
	addRandom(f)
	f.Fuzz(rapid.MakeFuzz(listByLabelEqualsScan))
}

func listByLabelEqualsScan(t *rapid.T) {
	w := labelWorld{t: t, g: logGenerator{t: t, now: 1_700_000_000_000, m: New(3)}}
	for range rapid.IntRange(1, 12).Draw(t, "entries") {
		w.change()
	}
	for range rapid.IntRange(1, 6).Draw(t, "queries") {
		q := w.query()
		samePages(t, w.g.m, q)
		w.pages(q)
	}
	audit(t, w.g.m)
}

// The few tasks with a label are found in one page, however many tasks lie before them. A scan looks at a few thousand
// tasks a page.
func TestListByRareLabelTakesOnePage(t *testing.T) {
	m := New(1)
	labels := []*fsmpb.Label{{Name: "rare", Value: "yes"}}
	entry := &fsmpb.Entry{Version: CommandVersion}
	for i := range 20_000 {
		c := scheduleCommand(fmt.Sprint(i), 9)
		if i%5000 == 0 {
			c.GetSchedule().Spec.Labels = labels
		}
		entry.Commands = append(entry.Commands, c)
	}
	applyBytes(t, m, mustMarshal(entry))
	page := m.List(&fsmpb.ListQuery{Labels: labels, Limit: 10}, task.Slots)
	if len(page.Tasks) != 4 || page.More {
		t.Errorf("the first page has %d tasks and more=%v, want all 4", len(page.Tasks), page.More)
	}
}

// The next tasks are found in one page, however many tasks have ended, are dead, are being retried or wait for a grant.
func TestNextTasksTakeOnePage(t *testing.T) {
	const n = 6000 // more than a page looks at
	m, entry := New(1), &fsmpb.Entry{Version: CommandVersion, AtMs: 1}
	for i := range 3 * n {
		entry.Commands = append(entry.Commands, scheduleCommand(fmt.Sprint("begun-", i), 9))
	}
	entry.Commands = append(entry.Commands, advanceCommand(10))
	entry.Commands[3*n].GetAdvance().Max = 3 * n
	entry.Commands = append(entry.Commands, &fsmpb.Command{Op: &fsmpb.Command_SetRules{SetRules: &fsmpb.SetRules{
		Rules: []*fsmpb.QueueRule{{Held: true}},
	}}})
	for i := range n {
		entry.Commands = append(entry.Commands, scheduleCommand(fmt.Sprint("ready-", i), 9))
	}
	applied := applyBytes(t, m, mustMarshal(entry))
	entry = &fsmpb.Entry{Version: CommandVersion, AtMs: 20}
	for i, grant := range applied.Grants {
		verdict := []fsmpb.Verdict{fsmpb.Verdict_VERDICT_DELIVERED, fsmpb.Verdict_VERDICT_DEAD, fsmpb.Verdict_VERDICT_RETRY}[i%3]
		c := settleGiven(grant, verdict)
		c.GetSettle().Consumer, c.GetSettle().RetryAtMs = false, 5000
		entry.Commands = append(entry.Commands, c)
	}
	advance := advanceCommand(20)
	advance.GetAdvance().Max = n
	entry.Commands = append(entry.Commands, advance)
	for i := range 5 {
		entry.Commands = append(entry.Commands, scheduleCommand(fmt.Sprint("next-", i), int64(4000+i)))
	}
	applyBytes(t, m, mustMarshal(entry))
	counts := m.Counts().ByState
	for _, state := range []fsmpb.State{
		fsmpb.State_STATE_DELIVERED, fsmpb.State_STATE_DEAD, fsmpb.State_STATE_RETRYING, fsmpb.State_STATE_READY,
	} {
		if counts[state] != n {
			t.Fatalf("%d tasks are %v, want %d", counts[state], state, n)
		}
	}
	for first, states := range map[string][]fsmpb.State{
		"next-0": {fsmpb.State_STATE_SCHEDULED, fsmpb.State_STATE_RETRYING},
		"ready-": nil,
		"begun-": {fsmpb.State_STATE_DEAD},
	} {
		page := m.List(&fsmpb.ListQuery{Order: fsmpb.ListOrder_LIST_ORDER_DUE, States: states, Limit: 5}, task.Slots)
		if len(page.Tasks) != 5 || !strings.HasPrefix(page.Tasks[0].Id, first) {
			t.Errorf("%v: %v, want %s first", states, names(page.Tasks), first)
		}
	}
}

// labelWorld has many tasks with few labels.
type labelWorld struct {
	t *rapid.T
	g logGenerator
}

// change applies an entry of random commands and of new tasks, or continues with a restored machine.
func (w *labelWorld) change() {
	if rapid.IntRange(0, 5).Draw(w.t, "restore") == 0 {
		w.g.m = restored(w.t, w.g.m)
	}
	w.g.learn(applyTo(w.t, w.g.m, w.g.entry(), true))
	entry := &fsmpb.Entry{Version: CommandVersion, AtMs: w.g.now}
	for range rapid.IntRange(0, 5).Draw(w.t, "tasks") {
		entry.Commands = append(entry.Commands, w.command())
	}
	for _, grant := range w.g.grants {
		if rapid.Bool().Draw(w.t, "ends") {
			c := settleGiven(grant, fsmpb.Verdict(rapid.IntRange(1, 4).Draw(w.t, "verdict")))
			c.GetSettle().Consumer = false
			c.GetSettle().RetryAtMs = w.g.now + rapid.Int64Range(0, 90_000).Draw(w.t, "retry")
			entry.Commands = append(entry.Commands, c)
		}
	}
	if rapid.Bool().Draw(w.t, "advance") {
		entry.Commands = append(entry.Commands, advanceCommand(w.g.now))
	}
	w.g.learn(applyTo(w.t, w.g.m, mustMarshal(entry), true))
}

// command schedules, patches or drops one of many tasks.
func (w *labelWorld) command() *fsmpb.Command {
	c := &fsmpb.Command{
		Namespace: rapid.SampledFrom([]string{"", "other"}).Draw(w.t, "namespace"),
		Id:        crowdedIDs()[rapid.IntRange(0, 30).Draw(w.t, "task")],
	}
	at := w.g.now + rapid.Int64Range(-9, 90_000).Draw(w.t, "at")
	if rapid.Bool().Draw(w.t, "together") {
		at = 1_700_000_050_000
	}
	switch rapid.IntRange(0, 9).Draw(w.t, "verb") {
	case 0:
		c.Op = &fsmpb.Command_Patch{Patch: &fsmpb.Patch{Clear: []string{"labels"}}}
	case 1:
		c.Op = &fsmpb.Command_Erase{Erase: &fsmpb.Erase{}}
	case 2:
		c.Op = &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}
	default:
		c.Op = &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{
			FireAtMs: at, ReceivedAtMs: w.g.now,
			Spec: &fsmpb.Spec{Labels: w.labels(), Target: &fsmpb.Target{Url: "http://x/"}},
		}}
	}
	return c
}

// crowdedIDs returns ids of tasks in few slots.
var crowdedIDs = sync.OnceValue(func() (ids []string) {
	for i := 0; len(ids) <= 30; i++ {
		if id := fmt.Sprint("task-", i); task.Slot("", id) < 4 {
			ids = append(ids, id)
		}
	}
	return ids
})

// labels draws some labels. logGenerator gives its tasks a label with the name l, too.
func (w *labelWorld) labels() []*fsmpb.Label {
	var labels []*fsmpb.Label
	for _, name := range []string{"l", "m"} {
		if value := rapid.SampledFrom([]string{"", "red", "blue"}).Draw(w.t, name); value != "" {
			labels = append(labels, &fsmpb.Label{Name: name, Value: value})
		}
	}
	return labels
}

func (w *labelWorld) query() *fsmpb.ListQuery {
	q := &fsmpb.ListQuery{
		Namespace: rapid.SampledFrom([]string{"", "", "other"}).Draw(w.t, "namespace"),
		Prefix:    rapid.SampledFrom([]string{"", "task-1"}).Draw(w.t, "prefix"),
		Queue:     rapid.SampledFrom([]string{"", "", "default", "q1"}).Draw(w.t, "queue"),
		Labels:    w.labels(),
		Limit:     rapid.Uint32Range(1, 5).Draw(w.t, "limit"),
	}
	if rapid.Bool().Draw(w.t, "due order") {
		q.Order = fsmpb.ListOrder_LIST_ORDER_DUE
	}
	for rapid.Bool().Draw(w.t, "by state") && len(q.States) < 2 {
		q.States = append(q.States, fsmpb.State(rapid.IntRange(1, len(fsmpb.State_name)-1).Draw(w.t, "state")))
	}
	if rapid.Bool().Draw(w.t, "due after") {
		q.DueAfterMs = w.g.now + rapid.Int64Range(-9000, 30_000).Draw(w.t, "after")
	}
	if rapid.Bool().Draw(w.t, "due before") {
		q.DueBeforeMs = w.g.now + rapid.Int64Range(-9000, 90_000).Draw(w.t, "before")
	}
	return q
}

// pages lists a query while tasks change between the pages.
func (w *labelWorld) pages(q *fsmpb.ListQuery) {
	always, seen := w.places(q), map[string]int{}
	ask := proto.CloneOf(q)
	for {
		page := w.g.m.List(ask, task.Slots)
		for _, name := range names(page.Tasks) {
			seen[name]++
		}
		if !page.More {
			break
		}
		turnPage(ask, page)
		w.change()
		still := w.places(q)
		maps.DeleteFunc(always, func(name string, place int64) bool {
			now, ok := still[name]
			return !ok || now != place
		})
	}
	for name := range always {
		if seen[name] != 1 {
			w.t.Fatalf("%s was found %d times by %v", name, seen[name], q)
		}
	}
}

// places returns the names of the tasks that a query finds, with their instants if it is in due order.
func (w *labelWorld) places(q *fsmpb.ListQuery) map[string]int64 {
	places := map[string]int64{}
	for _, found := range scan(w.g.m, q) {
		place := int64(0)
		if q.Order == fsmpb.ListOrder_LIST_ORDER_DUE {
			place = listedAt(found)
		}
		places[found.Namespace+"/"+found.Id] = place
	}
	return places
}

// turnPage makes a query ask for the page behind another one.
func turnPage(q *fsmpb.ListQuery, page *fsmpb.ListPage) {
	q.AfterDueMs, q.Slot, q.AfterId = page.AfterDueMs, page.Slot, page.AfterId
}

func names(tasks []*fsmpb.Task) []string {
	var names []string
	for _, t := range tasks {
		names = append(names, t.Namespace+"/"+t.Id)
	}
	return names
}

// scan lists a query without the help of labels and due times.
func scan(m *Machine, q *fsmpb.ListQuery) []*fsmpb.Task {
	all := proto.CloneOf(q)
	all.Labels, all.DueAfterMs, all.DueBeforeMs, all.Limit = nil, 0, 0, math.MaxUint32
	all.Order = fsmpb.ListOrder_LIST_ORDER_ID
	tasks := slices.DeleteFunc(listAll(m, all), func(t *fsmpb.Task) bool {
		return !hasLabels(t, q.Labels) || q.DueAfterMs != 0 && t.FireAtMs < q.DueAfterMs ||
			q.DueBeforeMs != 0 && t.FireAtMs >= q.DueBeforeMs
	})
	if q.Order == fsmpb.ListOrder_LIST_ORDER_DUE {
		if len(q.States) == 0 {
			tasks = slices.DeleteFunc(tasks, func(t *fsmpb.Task) bool { return store.IsTombstone(t.State) })
		}
		slices.SortStableFunc(tasks, func(a, b *fsmpb.Task) int { return cmp.Compare(listedAt(a), listedAt(b)) })
	}
	return tasks
}

// listedAt returns the instant by which a list in due order has a task.
func listedAt(t *fsmpb.Task) int64 {
	switch next := t.Series.GetNext(); {
	case t.Series != nil && len(next) == 0:
		return math.MaxInt64
	case t.Series != nil:
		return next[0].FireMs
	case t.State != fsmpb.State_STATE_DEAD:
		return cmp.Or(t.NextAttemptAtMs, t.FireAtMs)
	case len(t.History) == 0:
		return t.FireAtMs + t.Spec.ExpiresAfterMs
	}
	return t.History[len(t.History)-1].EndedAtMs
}

// listAll lists all pages of a query.
func listAll(m *Machine, q *fsmpb.ListQuery) []*fsmpb.Task {
	var tasks []*fsmpb.Task
	for ask := proto.CloneOf(q); ; {
		page := m.List(ask, task.Slots)
		tasks = append(tasks, page.Tasks...)
		if !page.More {
			return tasks
		}
		turnPage(ask, page)
	}
}

func hasLabels(t *fsmpb.Task, labels []*fsmpb.Label) bool {
	for _, want := range labels {
		if !slices.ContainsFunc(t.Spec.GetLabels(), func(l *fsmpb.Label) bool { return proto.Equal(l, want) }) {
			return false
		}
	}
	return true
}

// samePages compares the pages of a query with a scan.
func samePages(t failer, m *Machine, q *fsmpb.ListQuery) {
	t.Helper()
	if diff := gocmp.Diff(names(scan(m, q)), names(listAll(m, q))); diff != "" {
		t.Fatalf("a scan (-) and a list (+) of %v:\n%s", q, diff)
	}
}

// sameLabelled compares lists by the labels that logGenerator gives with scans.
func sameLabelled(t failer, m *Machine) {
	t.Helper()
	for _, value := range []string{"red", "blue"} {
		samePages(t, m, &fsmpb.ListQuery{Labels: []*fsmpb.Label{{Name: "l", Value: value}}, Limit: 2})
	}
}
