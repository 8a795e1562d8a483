package fsm

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// A list by labels finds the tasks that a list of all tasks has with these labels, page by page, after any history. A
// task that is there from the first page to the last appears once.
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
	w.g.learn(applyTo(w.t, w.g.m, mustMarshal(entry), true))
}

// command schedules, patches or drops one of many tasks.
func (w *labelWorld) command() *fsmpb.Command {
	c := &fsmpb.Command{
		Namespace: rapid.SampledFrom([]string{"", "other"}).Draw(w.t, "namespace"),
		Id:        fmt.Sprint("task-", rapid.IntRange(0, 30).Draw(w.t, "task")),
	}
	at := w.g.now + rapid.Int64Range(-9, 90_000).Draw(w.t, "at")
	switch rapid.IntRange(0, 9).Draw(w.t, "verb") {
	case 0:
		c.Op = &fsmpb.Command_Patch{Patch: &fsmpb.Patch{ClearLabels: true}}
	case 1:
		c.Op = &fsmpb.Command_Erase{Erase: &fsmpb.Erase{}}
	case 2:
		c.Op = &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}
	default:
		c.Op = &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{
			FireAtMs: at, ReceivedAtMs: w.g.now, Spec: &fsmpb.Spec{Labels: w.labels()},
		}}
	}
	return c
}

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
		Labels:    w.labels(),
		Limit:     rapid.Uint32Range(1, 5).Draw(w.t, "limit"),
	}
	if rapid.Bool().Draw(w.t, "by state") {
		q.States = []fsmpb.State{fsmpb.State(rapid.IntRange(1, len(fsmpb.State_name)-1).Draw(w.t, "state"))}
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
	always, seen := names(scan(w.g.m, q)), map[string]int{}
	ask := proto.CloneOf(q)
	for {
		page := w.g.m.List(ask, task.Slots)
		for _, name := range names(page.Tasks) {
			seen[name]++
		}
		if !page.More {
			break
		}
		ask.Slot, ask.AfterId = page.Slot, page.AfterId
		w.change()
		still := names(scan(w.g.m, q))
		always = slices.DeleteFunc(always, func(name string) bool { return !slices.Contains(still, name) })
	}
	for _, name := range always {
		if seen[name] != 1 {
			w.t.Fatalf("%s was found %d times by %v", name, seen[name], q)
		}
	}
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
	return slices.DeleteFunc(listAll(m, all), func(t *fsmpb.Task) bool {
		return !hasLabels(t, q.Labels) || q.DueAfterMs != 0 && t.FireAtMs < q.DueAfterMs ||
			q.DueBeforeMs != 0 && t.FireAtMs >= q.DueBeforeMs
	})
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
		ask.Slot, ask.AfterId = page.Slot, page.AfterId
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
	if diff := cmp.Diff(names(scan(m, q)), names(listAll(m, q))); diff != "" {
		t.Fatalf("a scan (-) and a list by labels (+) of %v:\n%s", q, diff)
	}
}

// sameLabelled compares lists by the labels that logGenerator gives with scans.
func sameLabelled(t failer, m *Machine) {
	t.Helper()
	for _, value := range []string{"red", "blue"} {
		samePages(t, m, &fsmpb.ListQuery{Labels: []*fsmpb.Label{{Name: "l", Value: value}}, Limit: 2})
	}
}
