package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/shard"
)

// twoShards is a state with two shards of equal size.
func twoShards() *clusterpb.ControlState {
	return &clusterpb.ControlState{
		ClusterId: "c", CommandVersion: Version,
		Slots:  []*clusterpb.SlotRange{{End: 2048, Shard: 1}, {First: 2048, End: 4096, Shard: 2}},
		Shards: []*clusterpb.Shard{{Id: 1, Replicas: []string{"a"}, Preferred: "a"}, {Id: 2, Replicas: []string{"a"}}},
	}
}

// Whatever moves begin, are decided on and end, each slot has one owner, the source of a move owns its slots until the
// decision and the target after it, and no two moves share a slot or a target.
func TestSlotMapStaysWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, last := twoShards(), uint64(0)
		for range rapid.IntRange(1, 40).Draw(t, "entries") {
			e := drawSlotEntry(t, s)
			e.Version = Version
			data, err := proto.Marshal(e)
			assert.NoError(t, err)
			next, _, err := apply(s, data)
			if err != nil && !errors.Is(err, ErrRefused) {
				t.Fatal(err)
			}
			if s = next; s.LastSlotMove < last {
				t.Fatalf("move %d after %d", s.LastSlotMove, last)
			}
			last = s.LastSlotMove
			checkSlotMap(t, s)
		}
	})
}

func drawSlotEntry(t *rapid.T, s *clusterpb.ControlState) *clusterpb.ControlEntry {
	shardID := func(name string) uint32 { return rapid.Uint32Range(1, uint32(len(s.Shards))).Draw(t, name) }
	number := func() uint64 { return rapid.Uint64Range(0, s.LastSlotMove).Draw(t, "number") }
	switch rapid.IntRange(0, 4).Draw(t, "entry") {
	case 0:
		return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_Split{
			Split: &clusterpb.Split{Shard: shardID("split"), Shards: uint32(len(s.Shards))},
		}}
	case 1:
		first := rapid.Uint32Range(0, task.Slots-1).Draw(t, "first")
		return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_MoveSlots{MoveSlots: &clusterpb.MoveSlots{
			Ranges: []*fsmpb.SlotRange{{First: first, End: first + rapid.Uint32Range(0, 900).Draw(t, "length")}},
			From:   shardID("from"), To: shardID("to"), Last: s.LastSlotMove,
		}}}
	case 2:
		return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_EndMove{
			EndMove: &clusterpb.EndMove{Number: number(), Again: rapid.Bool().Draw(t, "again")},
		}}
	default:
		return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_TurnMove{TurnMove: &clusterpb.TurnMove{
			Number: number(), State: clusterpb.SlotMoveState(rapid.Int32Range(0, 2).Draw(t, "state")),
		}}}
	}
}

func checkSlotMap(t *rapid.T, s *clusterpb.ControlState) {
	next := uint32(0)
	for _, r := range s.Slots {
		if r.First != next || r.End <= r.First || Shard(s, r.Shard) == nil || r.Epoch > s.LastSlotMove {
			t.Fatalf("the slot map: %v", s.Slots)
		}
		next = r.End
	}
	assert.MustEqual(t, next, task.Slots, "the slot map ends at")
	for i, m := range s.SlotMoves {
		owner := m.From
		if m.State == opening {
			owner = m.To
		}
		for _, r := range m.Ranges {
			if !owns(s.Slots, owner, r) {
				t.Fatalf("%v, and the slot map is %v", m, s.Slots)
			}
		}
		for _, other := range s.SlotMoves[i+1:] {
			if other.To == m.To || overlap(other.Ranges, m.Ranges) || other.Number <= m.Number {
				t.Fatalf("%v beside %v", m, other)
			}
		}
	}
}

func TestSplitHalvesAShard(t *testing.T) {
	s := twoShards()
	s.Slots = []*clusterpb.SlotRange{{End: 100, Shard: 1}, {First: 100, End: 4000, Shard: 2}, {First: 4000, End: 4096, Shard: 1}}
	next := mustApply(t, s, &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_Split{Split: &clusterpb.Split{Shard: 1, Shards: 2}}})
	if got := next.SlotMoves[0]; !got.Fresh || got.To != 3 || fmt.Sprint(got.Ranges) != fmt.Sprint([]*fsmpb.SlotRange{{First: 98, End: 100}, {First: 4000, End: 4096}}) {
		t.Errorf("%v", got)
	}
	if made := Shard(next, 3); !slices.Equal(made.Replicas, []string{"a"}) || made.Preferred != "a" || len(made.Joined) != 0 {
		t.Errorf("%v", made)
	}
}

// shardLeaders are the leaders of all shards. They record the commands and answer as the test says.
type shardLeaders struct {
	mu    sync.Mutex
	steps []string
	parts int // parts that a command takes
	pull  func(n int) (*clusterpb.SlotsProgress, error)
	pulls int
	group *Group
	shown []string // steps of move 1 at the calls, as the group shows them

	refused string // kind of the commands that the shards refuse; empty: none
}

func (l *shardLeaders) Step(_ context.Context, id uint32, c *fsmpb.Command) (more bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteStep()
	kind := strings.TrimPrefix(fmt.Sprintf("%T", c.Op), "*fsmpb.Command_")
	if u, a := c.GetUnsealSlots(), c.GetAbandonSlots(); u != nil && (len(u.Ranges) == 0 || u.To != 13 || u.Epoch != u.Move) ||
		a != nil && (len(a.Ranges) == 0 || a.From != 1 || a.Epoch != a.Move) {
		kind = c.String() // the shard could not refuse a late step
	}
	l.steps = append(l.steps, fmt.Sprint(kind, " ", id))
	n := 0
	for _, s := range l.steps {
		if s == l.steps[len(l.steps)-1] {
			n++
		}
	}
	if kind == l.refused {
		return false, fmt.Errorf("%w: it has given its slots away", shard.ErrMoveRefused)
	}
	if l.parts > 0 && n == 1 {
		return false, fmt.Errorf("shard %d: no leader", id) // the first try of each
	}
	return n <= l.parts, nil
}

func (l *shardLeaders) PullSlots(_ context.Context, target uint32, _ *clusterpb.PullSlotsCall) (*clusterpb.SlotsProgress, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteStep()
	l.pulls++
	l.steps = append(l.steps, fmt.Sprint("Pull ", target))
	return l.pull(l.pulls)
}

// noteStep notes the step that the group's leader shows.
func (l *shardLeaders) noteStep() {
	if shape := l.group.Shape(); shape != nil {
		l.shown = append(l.shown, shape.Slots[1].GetStep())
	}
}

func (l *shardLeaders) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Compact(slices.Clone(l.steps))
}

// moving returns a group of one whose slots move by these leaders.
func moving(t *testing.T, l *shardLeaders) *Group {
	t.Helper()
	g := single(t, struct {
		idleShards
		*shardLeaders
	}{shardLeaders: l})
	l.group = g
	assert.NoError(t, g.Split(t.Context(), 1, uint32(len(g.State().Shards))))
	return g
}

// A split takes its steps in order. Each step is taken again when it fails, and as often as it has more to do.
func TestSlotMoverTakesAllSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &shardLeaders{parts: 2, pull: func(n int) (*clusterpb.SlotsProgress, error) {
			switch n {
			case 1:
				return nil, errors.New("no leader")
			case 2:
				return &clusterpb.SlotsProgress{Tasks: 5, Copied: true}, nil
			case 3:
				return &clusterpb.SlotsProgress{Copied: true, Sealed: true}, nil
			}
			return &clusterpb.SlotsProgress{Ready: true}, nil
		}}
		g := moving(t, l)
		until(t, g, "the move has ended", func(s *clusterpb.ControlState) bool {
			return len(s.SlotMoves) == 0 && s.LastSlotMove == 1
		})
		want := []string{"ExpectSlots 13", "Pull 13", "OpenSlots 13", "DropSlots 1", "OpenSlots 13", "DropSlots 1"}
		assert.EqualSlices(t, l.all(), want, "steps")
		shown := slices.Compact(slices.Clone(l.shown))
		want = []string{"expect", "copy", "seal", "ready", "open", "drop", "open", "drop"}
		assert.EqualSlices(t, shown, want, "shown")
		slot := g.State().Slots[0].End
		if owner := g.State().Slots[1]; owner.Shard != 13 || owner.First != slot || owner.Epoch != 1 {
			t.Errorf("the slot map: %v", g.State().Slots)
		}
	})
}

// A move whose copy is lost is given up and begins anew. The source is unsealed before the target drops its copies.
func TestSlotMoverBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &shardLeaders{pull: func(n int) (*clusterpb.SlotsProgress, error) {
			if n == 1 {
				return nil, fmt.Errorf("x: %w", shard.ErrMoveLost)
			}
			return &clusterpb.SlotsProgress{Ready: true}, nil
		}}
		g := moving(t, l)
		until(t, g, "the move has ended", func(s *clusterpb.ControlState) bool {
			return len(s.SlotMoves) == 0 && s.LastSlotMove == 2
		})
		want := []string{
			"ExpectSlots 13", "Pull 13", "UnsealSlots 1", "AbandonSlots 13",
			"ExpectSlots 13", "Pull 13", "OpenSlots 13", "DropSlots 1",
		}
		assert.EqualSlices(t, l.all(), want, "steps")
	})
}

// A move that fails again and again ends, and its source keeps the slots.
func TestSlotMoverGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &shardLeaders{pull: func(int) (*clusterpb.SlotsProgress, error) { return nil, shard.ErrMoveRefused }}
		g := moving(t, l)
		before := len(g.State().Slots)
		until(t, g, "the move has ended", func(s *clusterpb.ControlState) bool { return len(s.SlotMoves) == 0 && s.LastSlotMove > 0 })
		if s := g.State(); s.LastSlotMove != mostTries || len(s.Slots) != before || slices.Contains(l.all(), "OpenSlots 13") {
			t.Errorf("%d moves, slots %v", s.LastSlotMove, s.Slots)
		}
	})
}

// A source that refuses to take its seal back holds the move up. The shape says so.
func TestSlotMoverTellsRefusedUnseal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &shardLeaders{
			refused: "UnsealSlots",
			pull:    func(int) (*clusterpb.SlotsProgress, error) { return nil, shard.ErrMoveLost },
		}
		g := moving(t, l)
		timeout := time.After(10 * time.Second)
		for look := time.Tick(5 * time.Millisecond); ; {
			wait, step := g.Shape().GetSlotsWait()[1], g.Shape().GetSlots()[1].GetStep()
			if strings.Contains(wait.GetReason(), "given its slots away") && step == stepUnseal {
				return
			}
			select {
			case <-look:
			case <-timeout:
				t.Fatalf("the shape says %v at step %q", wait, step)
			}
		}
	})
}

// A move of slots that does not go on says since when, why, and whether calls wait for it. Failures of moves that were
// given up count until one arrives.
func TestSlotSights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sights slotSights
		look := func(move *clusterpb.SlotMove) *clusterpb.SlotsWait {
			var shape clusterpb.Shape
			sights.fill(&clusterpb.ControlState{SlotMoves: []*clusterpb.SlotMove{move}}, &shape)
			return shape.SlotsWait[move.Number]
		}
		check := func(what string, got *clusterpb.SlotsWait, still time.Duration, reason string, givenUp uint32, wait bool) {
			t.Helper()
			if got.StillMs != still.Milliseconds() || got.Reason != reason || got.GivenUp != givenUp || got.CallsWait != wait {
				t.Errorf("%s: %v", what, got)
			}
		}
		first := &clusterpb.SlotMove{Number: 7, From: 1, To: 3}
		if look(first) != nil || !sights.begin(first) || sights.begin(first) {
			t.Error("a move begins once")
		}
		time.Sleep(2 * time.Second)
		sights.copied(7, &clusterpb.SlotsProgress{Tasks: 5})
		time.Sleep(10 * time.Second)
		sights.copied(7, &clusterpb.SlotsProgress{Tasks: 5})
		sights.stepped(7, errors.New("no leader"))
		check("it does not go on", look(first), 10*time.Second, "no leader", 0, false)
		sights.copied(7, &clusterpb.SlotsProgress{Tasks: 5, Sealed: true})
		check("it is sealed", look(first), 0, "", 0, true)
		sights.givenUp(first, errors.New("too slow"))
		time.Sleep(time.Second)
		sights.opened(7)
		check("it is given up", look(first), time.Second, "too slow", 1, false)

		again := &clusterpb.SlotMove{Number: 8, From: 1, To: 3, Tries: 1, State: opening}
		sights.begin(again)
		check("another leader has decided on it", look(again), 0, "too slow", 1, true)
		sights.arrived(again)
		third := &clusterpb.SlotMove{Number: 9, From: 1, To: 3}
		sights.begin(third)
		check("a later move", look(third), 0, "", 0, false)
	})
}
