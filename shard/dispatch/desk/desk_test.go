package desk

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

const shelfLife = 10 * time.Millisecond

var (
	red  = task.Lane{Namespace: "default", Queue: "red"}
	blue = task.Lane{Namespace: "default", Queue: "blue"}
)

// TestDeskModel checks that a task is always with one consumer, waiting in its lane or on its way, and is never lost,
// whatever consumers do.
func TestDeskModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newOffice(t)
		lanes := []task.Lane{red, blue}
		count := 0
		lane := rapid.SampledFrom(lanes)
		someone := func(t *rapid.T) *person {
			if len(o.people) == 0 {
				t.Skip()
			}
			p := rapid.SampledFrom(o.people).Draw(t, "who")
			if p.left {
				t.Skip()
			}
			return p
		}
		t.Repeat(map[string]func(*rapid.T){
			"due": func(t *rapid.T) {
				l := lane.Draw(t, "lane")
				for range rapid.IntRange(1, 5).Draw(t, "n") {
					count++
					o.ready[l] = append(o.ready[l], fmt.Sprint("task", count))
				}
			},
			"come": func(t *rapid.T) {
				lease := rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(t, "lease")
				holder := rapid.Uint32Range(0, 2).Draw(t, "holder")
				o.comesFrom(holder, lane.Draw(t, "lane"), lease, rapid.Uint64Range(0, 4).Draw(t, "total"))
			},
			"set": func(t *rapid.T) {
				p := someone(t)
				before := p.demand.room()
				p.total = uint64(len(p.got)) + rapid.Uint64Range(0, 6).Draw(t, "more")
				p.demand.Set(p.total, uint64(len(p.got)), p.asked)
				if p.demand.room() > before && !o.changed[p.lane] {
					t.Fatalf("%s asks for more, and Changed was not called", p.name)
				}
			},
			"look": func(t *rapid.T) {
				p := someone(t)
				p.asked++
				p.demand.Set(p.total, uint64(len(p.got)), p.asked)
			},
			"nothing": func(t *rapid.T) {
				l := lane.Draw(t, "lane")
				o.looking[l] = false
				o.desk.Nothing(l)
			},
			"leave": func(t *rapid.T) {
				p := someone(t)
				p.demand.Withdraw()
				p.left = true
			},
			"entry": func(t *rapid.T) { o.entry(lane.Draw(t, "lane"), rapid.IntRange(0, 9).Draw(t, "n")) },
			"entry while others act": func(t *rapid.T) {
				p := someone(t)
				l := lane.Draw(t, "lane")
				grants := o.assemble(l, rapid.IntRange(0, 9).Draw(t, "n"))
				p.demand.Withdraw()
				p.left = true
				o.desk.Granted(grants)
				o.held = append(o.held, grants...)
			},
			"start": func(t *rapid.T) {
				if len(o.held) == 0 {
					t.Skip()
				}
				o.start(rapid.IntRange(1, len(o.held)).Draw(t, "n"))
			},
			"stopped": func(t *rapid.T) {
				if len(o.held) == 0 {
					t.Skip()
				}
				g := o.held[0]
				o.gone[g.ID], o.out[g.ID] = true, "cancel"
				o.start(1)
			},
			"given back": func(t *rapid.T) {
				if len(o.held) == 0 {
					t.Skip()
				}
				last := len(o.held) - 1
				o.desk.GivenBack(o.held[last:])
				o.giveBack(o.held[last])
				o.held = o.held[:last]
			},
			"time passes": func(t *rapid.T) {
				o.pass(rapid.SampledFrom([]time.Duration{1, shelfLife / 2, shelfLife}).Draw(t, "time"))
			},
			"sweep": func(*rapid.T) { o.desk.Sweep() },
			"":      func(t *rapid.T) { o.check(t, count) },
		})
		o.pass(shelfLife + tidyEvery)
		if s := &o.desk.shelf; s.armed || len(s.tasks) > 0 || s.bytes != 0 {
			t.Fatalf("%d on the shelf, %d bytes", len(s.tasks), s.bytes)
		}
	})
}

func TestServedInTurn(t *testing.T) {
	o := newOffice(t)
	var people []*person
	for range 4 {
		people = append(people, o.comes(red, time.Second, 100))
	}
	for i := range 12 {
		o.ready[red] = append(o.ready[red], fmt.Sprint("task", i))
		o.entry(red, 1)
		o.start(1)
	}
	for i, p := range people {
		want := []string{fmt.Sprint("task", i), fmt.Sprint("task", i+4), fmt.Sprint("task", i+8)}
		assert.EqualSlices(t, p.got, want, "%s got", p.name)
	}
}

func TestTasksOfOneWhoLeftGoToAnother(t *testing.T) {
	o := newOffice(t)
	o.ready[red] = []string{"a", "b", "c", "d"}
	first := o.comes(red, time.Second, 3)
	o.entry(red, 9)
	first.demand.Withdraw()
	first.left = true
	o.start(1) // no demand is left
	same := o.comes(red, time.Second, 1)
	assert.EqualSlices(t, same.got, []string{"a"}, "got")
	o.start(1)
	longer := o.comes(red, time.Hour, 3) // the only demand, and of other terms
	o.start(1)
	o.pass(0)
	if len(longer.got) > 0 || len(same.got) != 1 || len(o.ready[red]) != 3 {
		t.Errorf("got %v and %v; %v are ready", longer.got, same.got, o.ready[red])
	}
	assert.Equal(t, len(o.desk.demands), 2, "demands are remembered")
}

// TestLoweredDemand checks that a busy consumer leaves its tasks to others, and gets the rest when it comes back.
func TestLoweredDemand(t *testing.T) {
	o := newOffice(t)
	o.ready[red] = []string{"a", "b", "c"}
	busy := o.comes(red, time.Second, 3)
	o.entry(red, 9)
	busy.demand.Set(0, 0, 0)
	idle := o.comes(red, time.Second, 1)
	o.start(2)
	if !slices.Equal(idle.got, []string{"a"}) || len(busy.got) != 0 {
		t.Errorf("got %v and %v", idle.got, busy.got)
	}
	busy.demand.Set(2, 0, 0)
	o.start(1)
	o.pass(shelfLife)
	if !slices.Equal(busy.got, []string{"b", "c"}) || len(o.ready[red]) > 0 {
		t.Errorf("got %v, %v are ready", busy.got, o.ready[red])
	}
}

func TestSlowConsumerGetsNoMore(t *testing.T) {
	o := newOffice(t)
	o.payload = make([]byte, 1<<20)
	slow := o.comes(red, time.Second, 100)
	for i := range 26 {
		o.ready[red] = append(o.ready[red], fmt.Sprint("task", i))
	}
	o.entry(red, 100)
	o.start(26)
	if len(slow.got) != 8 || len(o.ready[red]) == 0 || len(o.desk.shelf.tasks)+len(o.ready[red]) != 18 {
		t.Fatalf("%d handed over, %d on the shelf", len(slow.got), len(o.desk.shelf.tasks))
	}
	if o.desk.shelf.bytes > maxShelfBytes {
		t.Errorf("%d bytes on the shelf", o.desk.shelf.bytes)
	}
	o.pass(shelfLife)
	wishes := o.desk.Wishes(red)
	assert.Equal(t, len(wishes), 0, "still asked for: %v", wishes)
	o.desk.Granted(nil)
	slow.demand.Set(100, 8, 0)
	if !o.changed[red] {
		t.Error("Changed was not called when there was room again")
	}
	o.entry(red, 100)
	o.start(8)
	assert.Equal(t, len(slow.got), 16, "handed over in the end")
}

func TestReadyIsTold(t *testing.T) {
	o := newOffice(t)
	o.ready[red] = []string{"a", "b", "c"}
	p := o.comes(red, time.Second, 1)
	o.entry(red, 9)
	o.start(1)
	assert.Equal(t, p.ready, 2, "told of")
}

func TestCloseEndsEverybody(t *testing.T) {
	o := newOffice(t)
	p := o.comes(red, time.Second, 1)
	reason := errors.New("over")
	o.desk.Close(reason)
	o.desk.Close(errors.New("again"))
	if p.ended != reason {
		t.Errorf("ended with %v", p.ended)
	}
	if _, err := o.desk.Open(red, Terms{Lease: time.Second}, 1, p); err != reason {
		t.Errorf("opened with %v", err)
	}
	p.demand.Set(5, 0, 0)
	p.demand.Withdraw()
	if o.desk.Waiting() != 0 || o.desk.Wishes(red) != nil {
		t.Error("a demand is left")
	}
}

func TestWithdrawnWhileTheEntryIsOut(t *testing.T) {
	o := newOffice(t)
	o.ready[red] = []string{"a"}
	first := o.comes(red, time.Second, 1)
	grants := o.assemble(red, 1)
	first.demand.Withdraw()
	first.left = true
	second := o.comes(red, time.Second, 1)
	o.desk.Granted(grants)
	o.desk.Start(grants)
	if !slices.Equal(second.got, []string{"a"}) || len(o.desk.demands) != 1 {
		t.Errorf("got %v, %d demands are remembered", second.got, len(o.desk.demands))
	}
}

func TestShelfLife(t *testing.T) {
	o := newOffice(t)
	o.ready[red] = []string{"a", "b"}
	p := o.comes(red, time.Second, 2)
	o.entry(red, 2)
	p.demand.Set(0, 0, 0)
	o.start(1)
	o.pass(shelfLife / 2)
	o.start(1)
	for _, want := range []int{0, 1, 2} {
		assert.Equal(t, len(o.ready[red]), want, "given back")
		o.pass(shelfLife / 2)
	}
}

// TestCloseEmptiesTheShelf checks that a closing desk, which cannot give tasks back, hands those on the shelf to the
// node that asked for them. That node can give them back.
func TestCloseEmptiesTheShelf(t *testing.T) {
	o := newOffice(t)
	o.ready[red] = []string{"a"}
	p := o.comes(red, time.Second, 1)
	o.entry(red, 1)
	p.demand.Set(0, 0, 0)
	o.start(1)
	o.desk.Close(errors.New("over"))
	o.pass(shelfLife)
	if !slices.Equal(p.got, []string{"a"}) || len(o.ready[red]) > 0 {
		t.Errorf("got %v, %v are ready", p.got, o.ready[red])
	}
}

// TestUnloadedWhenTheLeadershipIsOver checks that a task that the desk can no longer give back goes to a consumer that
// can give it back to the next leader.
func TestUnloadedWhenTheLeadershipIsOver(t *testing.T) {
	o := newOffice(t)
	o.ready[red] = []string{"a", "b"}
	p := o.comes(red, time.Second, 2)
	o.entry(red, 2)
	p.demand.Set(0, 0, 0)
	o.over = true
	o.start(1)
	o.pass(shelfLife)
	assert.EqualSlices(t, p.got, []string{"a"}, "got")
	other := o.comesFrom(7, red, time.Second, 2)
	p.demand.Withdraw()
	p.left = true
	o.start(1)
	o.pass(shelfLife) // no demand of its node is left: the next leader reclaims the lease, or it runs out
	if len(other.got) > 0 {
		t.Errorf("another node got %v", other.got)
	}
}
