package health

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/shard"
)

// fake is the replica of shard 3 on node a.
type fake struct {
	Replica
	behind   bool // it has not caught up
	standing shard.Standing
	lack     error
}

func (*fake) ID() uint32                     { return 3 }
func (*fake) Voters() []string               { return []string{"a", "b", "c"} }
func (f *fake) Standing() shard.Standing     { return f.standing }
func (f *fake) SetStanding(s shard.Standing) { f.standing = s }
func (f *fake) SetRoom(lack error)           { f.lack = lack }
func (f *fake) HasCaughtUp() bool            { return !f.behind }

// world is node a, with the inputs of its health.
type world struct {
	*Nodes
	replica fake
	low     bool
	rests   bool
	full    string
}

func (w *world) Replicas() []Replica { return []Replica{&w.replica} }
func (w *world) DiskLow() bool       { return w.low }
func (w *world) MemoryFull() string  { return w.full }
func (w *world) Resting() bool       { return w.rests }

// newWorld returns node a, to which b and c have answered just now.
func newWorld() *world {
	w := &world{}
	w.Nodes = New(Config{Self: "a", Node: w})
	w.Answered("b")
	w.Answered("c")
	return w
}

func (w *world) hears(node string, health *clusterpb.NodeHealth) {
	w.hear(node, &clusterpb.CompareReply{Health: health}, nil)
}

// outvote makes the replica of one node the only one that is outvoted; empty: none is.
func (w *world) outvote(node string) {
	l := newLedger(&copyOf{})
	if l.outvoted = node == "a"; !l.outvoted && node != "" {
		l.of(node).outvoted = true
	}
	w.shards[3] = l
}

func TestStandingFollowsTheNode(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		want   shard.Standing
	}{
		"well":                {func(*world) {}, shard.Willing},
		"disk low":            {func(w *world) { w.low = true }, shard.Reluctant},
		"resting":             {func(w *world) { w.rests = true }, shard.Reluctant},
		"clock apart":         {func(w *world) { w.SetClockApart(true) }, shard.Reluctant},
		"outvoted":            {func(w *world) { w.outvote("a") }, shard.Barred},
		"outvoted, disk low":  {func(w *world) { w.outvote("a"); w.low = true }, shard.Barred},
		"another is outvoted": {func(w *world) { w.outvote("b") }, shard.Willing},
		"another's disk low":  {func(w *world) { w.hears("b", &clusterpb.NodeHealth{DiskLow: true}) }, shard.Willing},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c.change(w)
			w.Judge()
			assert.Equal(t, w.replica.standing, c.want, "the replica")
			w.low, w.rests = false, false
			w.outvote("")
			w.SetClockApart(false)
			if w.replica.standing != shard.Willing {
				t.Errorf("the replica is %v after the trouble has passed", w.replica.standing)
			}
		})
	}
}

func TestRoomOfAShard(t *testing.T) {
	low, full := &clusterpb.NodeHealth{DiskLow: true}, &clusterpb.NodeHealth{MemoryFull: "1GiB"}
	for name, c := range map[string]struct {
		change func(w *world)
		want   error // nil: there is room
	}{
		"well":                       {func(*world) {}, nil},
		"one disk of three":          {func(w *world) { w.hears("b", low) }, nil},
		"its own disk":               {func(w *world) { w.low = true }, nil},
		"two disks":                  {func(w *world) { w.low = true; w.hears("b", low) }, task.ErrNoRoom},
		"one disk, another is down":  {func(w *world) { w.hears("b", low); w.answers.last = nil }, task.ErrNoRoom},
		"no disk, others are down":   {func(w *world) { w.answers.last = nil }, nil},
		"one memory":                 {func(w *world) { w.hears("c", full) }, task.ErrNoMemory},
		"its own memory":             {func(w *world) { w.full = "2GiB" }, task.ErrNoMemory},
		"memory of one that is down": {func(w *world) { w.hears("c", full); w.answers.last = nil }, nil},
		"memory, and then not":       {func(w *world) { w.hears("c", full); w.hears("c", &clusterpb.NodeHealth{}) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c.change(w)
			if w.Judge(); !errors.Is(w.replica.lack, c.want) {
				t.Errorf("the shard lacks %v, want %v", w.replica.lack, c.want)
			}
		})
	}
	w := newWorld()
	w.hears("c", full)
	w.Judge()
	var memory *task.MemoryError
	if !errors.As(w.replica.lack, &memory) || memory.Node != "c" || memory.Limit != "1GiB" {
		t.Errorf("the shard lacks %v", w.replica.lack)
	}
}

func TestMayLead(t *testing.T) {
	w := newWorld()
	may := func(node string, want bool) {
		t.Helper()
		assert.Equal(t, w.MayLead(3, node), want, "node %s may lead", node)
	}
	may("a", true)
	may("b", true)
	may("d", false) // a node that has never answered
	w.hears("b", &clusterpb.NodeHealth{Unwilling: []uint32{2, 3}})
	may("b", false)
	w.hears("b", &clusterpb.NodeHealth{Unwilling: []uint32{2}})
	may("b", true)
	w.outvote("c")
	may("c", false)
}

// A replica is given no leadership before it has caught up since its start.
func TestReplicaThatIsBehindIsUnwilling(t *testing.T) {
	w := newWorld()
	for _, c := range []struct {
		behind    bool
		standing  shard.Standing
		unwilling bool
	}{
		{false, shard.Willing, false}, {true, shard.Willing, true},
		{false, shard.Reluctant, true}, {false, shard.Barred, true},
	} {
		w.replica.behind, w.replica.standing = c.behind, c.standing
		assert.Equal(t, len(w.Report().Unwilling) == 1, c.unwilling, "behind %t, %v: unwilling", c.behind, c.standing)
	}
}

func TestReport(t *testing.T) {
	w := newWorld()
	w.low, w.full = true, "1GiB"
	if r := w.Report(); !r.DiskLow || r.MemoryFull != "1GiB" || len(r.Unwilling) != 0 {
		t.Errorf("reports %v", r)
	}
}

func TestAliveForFourSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for after, want := range map[time.Duration]bool{0: true, aliveFor: true, aliveFor + 1: false} {
			w.Answered("b")
			time.Sleep(after)
			assert.Equal(t, w.Alive("b"), want, "alive %v after its answer", after)
			if !w.Alive("a") || w.Alive("d") {
				t.Error("this node is dead, or one that never answered is alive")
			}
		}
	})
}

// The last answer of a silent node is known for a month.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		time.Sleep(rememberFor)
		w.Answered("b")
		if silence, known := w.Silence("c"); !known || silence != rememberFor {
			t.Errorf("silent for %v, known: %t", silence, known)
		}
		time.Sleep(time.Second)
		w.Answered("b")
		if _, known := w.Silence("c"); known {
			t.Error("known after a month")
		}
		if silence, known := w.Silence("b"); !known || silence != 0 {
			t.Errorf("silent for %v, known: %t", silence, known)
		}
	})
}
