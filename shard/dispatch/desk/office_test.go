package desk

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// office is a desk with its surroundings: the lanes' tasks, the entry being made, the firing queue.
type office struct {
	t       rapid.TB
	desk    *Desk
	changed map[task.Lane]bool
	looking map[task.Lane]bool // lanes with an unanswered call of Look
	ready   map[task.Lane][]string
	held    []task.Grant
	out     map[string]string // the holder of a task; empty: none
	terms   map[string]Terms  // of granted tasks
	gone    map[string]bool   // tasks that a cancel has stopped
	fence   uint64
	payload []byte
	people  []*person
	over    bool // the leadership is over: no grant can be given back
	now     time.Time
	alarms  []alarm
}

type alarm struct {
	at   time.Time
	ring func()
}

// pass advances the clock by d and runs the alarms on the way.
func (o *office) pass(d time.Duration) {
	for end := o.now.Add(d); ; {
		next := slices.IndexFunc(o.alarms, func(a alarm) bool { return !a.at.After(end) })
		if next < 0 {
			o.now = end
			return
		}
		a := o.alarms[next]
		o.alarms = slices.Delete(o.alarms, next, next+1)
		o.now = a.at
		a.ring()
	}
}

type person struct {
	o      *office
	name   string
	lane   task.Lane
	terms  Terms
	demand *Demand
	total  uint64
	got    []string
	ready  int
	ended  error
	left   bool
	asked  uint64 // number of the last question
	look   uint64 // number of the last question answered with Nothing
}

func (p *person) Nothing(look uint64) {
	if p.left || p.ended != nil || look <= p.look || p.demand.coming > 0 {
		p.o.t.Fatalf("%s is told that nothing is there: %d after %d, %d on their way", p.name, look, p.look, p.demand.coming)
	}
	p.look = look
}

func (p *person) Take(l task.Leased) {
	p.ready = l.Ready
	if p.left || p.ended != nil {
		p.o.t.Fatalf("%s has left and gets %v", p.name, l.Tasks)
	}
	for _, task := range l.Tasks {
		if by := p.o.out[task.Id]; by != "" {
			p.o.t.Fatalf("%s is handed to %s and to %s", task.Id, by, p.name)
		}
		if terms := p.o.terms[task.Id]; terms != p.terms {
			p.o.t.Fatalf("%s asked for %v and gets %s, leased by %v", p.name, p.terms, task.Id, terms)
		}
		p.o.out[task.Id] = p.name
		p.got = append(p.got, task.Id)
	}
}

func (p *person) End(err error) { p.ended = err }

func newOffice(t rapid.TB) *office {
	o := &office{
		t: t, changed: map[task.Lane]bool{}, looking: map[task.Lane]bool{}, ready: map[task.Lane][]string{}, out: map[string]string{},
		terms: map[string]Terms{}, gone: map[string]bool{},
	}
	o.desk = NewDesk(o)
	o.desk.shelf.now = func() time.Time { return o.now }
	o.desk.shelf.later = func(d time.Duration, f func()) { o.alarms = append(o.alarms, alarm{o.now.Add(d), f}) }
	return o
}

func (o *office) Changed(l task.Lane) { o.changed[l] = true }

func (o *office) Look(l task.Lane) { o.looking[l] = true }

func (o *office) Keep() time.Duration { return shelfLife }

func (o *office) Task(g task.Grant) *fsmpb.Task {
	if o.gone[g.ID] {
		return nil
	}
	return &fsmpb.Task{Id: g.ID, Spec: &fsmpb.Spec{Payload: o.payload}}
}

func (o *office) Release(grants []task.Grant) []task.Grant {
	if o.over {
		return grants
	}
	for _, g := range grants {
		o.giveBack(g)
	}
	return nil
}

func (o *office) giveBack(g task.Grant) {
	if by := o.out[g.ID]; by != "" {
		o.t.Fatalf("%s is given back, and %s has it", g.ID, by)
	}
	delete(o.terms, g.ID)
	o.ready[g.Lane] = append([]string{g.ID}, o.ready[g.Lane]...)
}

func (o *office) comes(lane task.Lane, lease time.Duration, total uint64) *person {
	return o.comesFrom(0, lane, lease, total)
}

func (o *office) comesFrom(holder uint32, lane task.Lane, lease time.Duration, total uint64) *person {
	p := &person{
		o: o, name: fmt.Sprint("p", len(o.people)), lane: lane, terms: Terms{Lease: lease, Holder: holder}, total: total,
	}
	var err error
	if p.demand, err = o.desk.Open(lane, p.terms, total, p); err != nil {
		o.t.Fatal(err)
	}
	o.people = append(o.people, p)
	return p
}

// assemble makes an entry that grants up to n tasks to a lane's consumers, and returns the grants.
func (o *office) assemble(lane task.Lane, n int) []task.Grant {
	delete(o.changed, lane)
	var grants []task.Grant
	for _, w := range o.desk.Wishes(lane) {
		for ; w.Max > 0 && n > 0 && len(o.ready[lane]) > 0; w.Max, n = w.Max-1, n-1 {
			id := o.ready[lane][0]
			o.ready[lane] = o.ready[lane][1:]
			o.fence++
			o.terms[id] = w.Terms
			grants = append(grants, task.Grant{ID: id, Lane: lane, Tag: w.Tag, Fence: o.fence})
		}
	}
	return grants
}

func (o *office) entry(lane task.Lane, n int) {
	grants := o.assemble(lane, n)
	o.desk.Granted(grants)
	o.desk.Ready(lane, len(o.ready[lane]), 0)
	o.held = append(o.held, grants...)
}

func (o *office) start(n int) {
	due := o.held[:n]
	o.held = slices.Clone(o.held[n:])
	o.desk.Start(due)
}

func (o *office) check(t *rapid.T, count int) {
	o.pass(0)
	n := len(o.held) + len(o.desk.shelf.tasks)
	for _, ids := range o.ready {
		n += len(ids)
	}
	for _, by := range o.out {
		if by != "" {
			n++
		}
	}
	if n != count {
		t.Fatalf("%d of %d tasks are accounted for", n, count)
	}
	coming := map[uint64]int{}
	for _, g := range o.held {
		coming[g.Tag]++
	}
	for tag, d := range o.desk.demands {
		if d.coming != coming[tag] || int(d.granted) != d.coming+len(d.consumer.(*person).got) {
			t.Fatalf("%s: %d granted, %d of them coming; %d are, and %v arrived", d.consumer.(*person).name, d.granted,
				d.coming, coming[tag], d.consumer.(*person).got)
		}
		if d.place != nil && d.look > d.looked && d.coming == 0 && !o.looking[d.line.lane] {
			t.Fatalf("%s asks whether a task is there, and will get no answer", d.consumer.(*person).name)
		}
		if d.place == nil && d.coming == 0 {
			t.Fatalf("%s has left and is remembered", d.consumer.(*person).name)
		}
	}
}
