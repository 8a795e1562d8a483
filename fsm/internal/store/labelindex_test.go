package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// labelModel holds the same entries as an index, in maps.
type labelModel struct {
	t     *testing.T
	x     labelIndex
	tasks map[labelKey]map[handle]bool
}

func newLabelModel(t *testing.T) *labelModel {
	return &labelModel{t, newLabelIndex(slotOfTest), map[labelKey]map[handle]bool{}}
}

func slotOfTest(h handle) uint32 { return h * 2654435761 % task.Slots }

// turn adds a task to a label, or removes it if the label has it.
func (m *labelModel) turn(k labelKey, h handle) {
	switch of := m.tasks[k]; {
	case of[h]:
		delete(of, h)
		m.x.remove(k, h)
	default:
		if of == nil {
			m.tasks[k] = map[handle]bool{}
		}
		m.tasks[k][h] = true
		m.x.add(k, h)
	}
}

// check compares a label's tasks, and the bytes of all postings.
func (m *labelModel) check(k labelKey) {
	m.t.Helper()
	var want, got foundTasks
	for h := range m.tasks[k] {
		want = append(want, uint64(slotOfTest(h))<<32|uint64(h))
	}
	slices.Sort(want)
	tasks := m.x.tasks(k)
	for slot := range uint32(task.Slots) {
		n := len(got)
		for h := range tasks.Each(slot) {
			got = append(got, uint64(slot)<<32|uint64(h))
		}
		slices.Sort(got[n:])
		if tasks.SlotLen(slot) != len(got)-n {
			m.t.Fatalf("slot %d has %d tasks, and says %d", slot, len(got)-n, tasks.SlotLen(slot))
		}
	}
	if !slices.Equal(got, want) || m.x.len(k) != len(want) {
		m.t.Fatalf("label %x: found %d tasks and counted %d, want %d", k, len(got), m.x.len(k), len(want))
	}
	bytes := int64(0)
	for _, p := range m.x.postings {
		bytes += p.bytes()
	}
	if bytes != m.x.bytes {
		m.t.Fatalf("counted %d bytes of postings, which have %d", m.x.bytes, bytes)
	}
}

// Labels gain and lose tasks in any order, up to three times manyTasks and down to none.
func TestLabelIndexEqualsMaps(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := newLabelModel(t)
			draw := rand.New(rand.NewPCG(seed, 0))
			for _, share := range []int{100, 70, 30, 95, 5, 40} {
				m.fill(draw, share)
			}
			m.empty()
		})
	}
}

// fill gives about a share, in percent, of all tasks to each label. The labels differ in how many tasks there are.
func (m *labelModel) fill(draw *rand.Rand, share int) {
	for i, all := range []int{6, rareTasks + 2, 300, 3 * manyTasks} {
		k := labelKey(i) << 20
		for _, h := range draw.Perm(all) {
			if m.tasks[k][handle(h+1)] != (draw.IntN(100) < share) {
				m.turn(k, handle(h+1))
			}
		}
		m.check(k)
	}
}

// empty removes all tasks.
func (m *labelModel) empty() {
	for k, tasks := range m.tasks {
		for h := range tasks {
			m.turn(k, h)
		}
		m.check(k)
	}
	if len(m.x.postings) != 0 || m.x.bytes != 0 {
		m.t.Fatalf("%d postings and %d bytes are left", len(m.x.postings), m.x.bytes)
	}
}

// A label passes each border of its kinds upwards and downwards.
func TestLabelIndexBorders(t *testing.T) {
	t.Parallel()
	m := newLabelModel(t)
	const k = 77
	kind := func() string {
		switch p := m.x.postings[k]; {
		case p == nil:
			return "rare"
		case p.bySlot == nil:
			return "one slice"
		}
		return "by slot"
	}
	n := 0
	for _, step := range []struct {
		n    int
		want string
	}{
		{rareTasks, "rare"}, {rareTasks + 1, "one slice"}, {manyTasks, "one slice"}, {manyTasks + 1, "by slot"},
		{manyTasks/4 + 1, "by slot"}, {manyTasks / 4, "one slice"}, {rareTasks/2 + 1, "one slice"}, {rareTasks / 2, "rare"},
	} {
		for ; n < step.n; n++ {
			m.turn(k, handle(n+1))
		}
		for ; n > step.n; n-- {
			m.turn(k, handle(n))
		}
		m.check(k)
		assert.Equal(t, kind(), step.want, "%d tasks are kept", n)
	}
}

// Two labels that share a key are told apart by the tasks' own labels.
func TestCollidingLabels(t *testing.T) {
	t.Parallel()
	s := New(1)
	s.NowMs = 1000
	labels := func(value string) []*fsmpb.Label { return []*fsmpb.Label{{Name: "order", Value: value}} }
	for i, value := range []string{"red", "blue"} {
		s.Number++
		content := Content{Spec: &fsmpb.Spec{Labels: labels(value)}, CreatedMs: 1000, DelayMs: NoDelay}
		s.Add(s.PlaceOf("", value), "", value, nil, content, int64(2000+i))
	}
	red := s.labels.key(task.DefaultNamespace, labels("red")[0])
	s.labels.add(red, s.Find("", "blue").h)
	assert.MustEqual(t, s.labels.len(red), 2, "tasks share the key")
	page := s.List(&fsmpb.ListQuery{Labels: labels("red"), Limit: 9}, task.Slots)
	if len(page.Tasks) != 1 || page.Tasks[0].Id != "red" {
		t.Errorf("found %v, want the task red alone", page.Tasks)
	}
	assert.Error(t, s.Audit(), "the audit misses an entry that no task has")
}

// A task with the same label twice is indexed once, and removed once.
func TestLabelGivenTwice(t *testing.T) {
	t.Parallel()
	s := New(1)
	l := &fsmpb.Label{Name: "a", Value: "b"}
	content := Content{Spec: &fsmpb.Spec{Labels: []*fsmpb.Label{l, l}}, DelayMs: NoDelay}
	s.Number++
	s.Add(s.PlaceOf("", "x"), "", "x", nil, content, 2000)
	assert.Equal(t, s.Audit(), nil)
	s.Change(s.Find("", "x"), Edit.Drop)
	assert.Equal(t, s.labels.len(s.labels.key(task.DefaultNamespace, l)), 0, "entries are left of a task that was dropped")
}
