// The tests of this file run in one goroutine, and take minutes under the race detector.

//go:build !race

package capacity

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/cluster/placement"
	"github.com/belfryhq/belfry/internal/assert"
)

// anyLoad draws loads from a hundred tasks up to the load of a large cluster.
func anyLoad(t *rapid.T) Workload {
	w := DefaultWorkload()
	scale := rapid.Float64Range(0, 9).Draw(t, "scale")
	pow := func(top float64, label string) float64 {
		return 1 + rapid.Float64Range(0, 1).Draw(t, label)*top
	}
	size := 1.0
	for range int(scale) {
		size *= 10
	}
	w.Tasks = pow(size, "tasks")
	w.Rate = pow(size/5000, "rate")
	w.Fires = w.Rate * rapid.Float64Range(0, 1).Draw(t, "fires")
	w.Payload = rapid.IntRange(0, 2000).Draw(t, "payload")
	w.ID = rapid.IntRange(1, 200).Draw(t, "id")
	w.Labels = rapid.IntRange(0, 16).Draw(t, "labels")
	w.Webhooks = rapid.Float64Range(0, 1).Draw(t, "webhooks")
	w.Batch = pow(100, "batch")
	w.KeepDone = time.Duration(rapid.IntRange(0, 3600).Draw(t, "keep_done")) * time.Second
	w.Replication = rapid.SampledFrom([]int{1, 3, 5}).Draw(t, "replication")
	w.Zones = rapid.IntRange(0, 4).Draw(t, "zones")
	return w
}

func anyMachine(t *rapid.T) Machine {
	draw := func(least, most float64, label string) float64 { return rapid.Float64Range(least, most).Draw(t, label) }
	return Machine{
		Memory: draw(2<<30, 256<<30, "memory"), Cores: draw(1, 64, "cores"), Disk: draw(50e9, 8e12, "disk"),
		DiskWrite: draw(50e6, 2e9, "disk write"), Syncs: draw(200, 50000, "syncs"), Network: draw(50e6, 5e9, "network"),
	}
}

// A plan must fit by its own figures, and one node fewer must not.
func TestPlansFitAndAreSmallest(t *testing.T) {
	t.Parallel()
	c := Measured()
	rapid.Check(t, func(t *rapid.T) {
		w, m := anyLoad(t), anyMachine(t)
		p, err := Make(w, m, c)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "no plan: ") {
				t.Fatal(err)
			}
			return
		}
		again, err := evaluate(w, m, c, shape{nodes: p.Nodes, replication: w.Replication, perNode: p.Shards / p.Nodes})
		if err != nil || !again.Fits() {
			t.Fatalf("its own check finds %+v, %v", again.Needs[0], err)
		}
		if p.Nodes < w.Replication || p.Shards != p.Nodes*p.Leads || p.Shards > MaxShards {
			t.Fatalf("%d nodes, %d shards, %d of them on each", p.Nodes, p.Shards, p.Leads)
		}
		for _, n := range p.Needs {
			if n.Usual < 0 || n.Lost < 0 || n.Share() > p.Needs[0].Share() {
				t.Fatalf("%+v beside %+v", n, p.Needs[0])
			}
		}
		if fewer, err := smallest(w, m, c, p.Nodes-1); err == nil {
			t.Fatalf("%d nodes would do, and %d were planned", fewer.Nodes, p.Nodes)
		}
	})
}

// more makes one figure of a load larger.
var more = []struct {
	name string
	grow func(*Workload, float64)
}{
	{"tasks", func(w *Workload, by float64) { w.Tasks *= by }},
	{"rate", func(w *Workload, by float64) { w.Rate *= by }},
	{"rate and fires", func(w *Workload, by float64) { w.Rate *= by; w.Fires *= by }},
	{"payload", func(w *Workload, by float64) { w.Payload = int(float64(w.Payload)*by) + 100 }},
	{"id", func(w *Workload, by float64) { w.ID = min(200, w.ID+int(by*10)) }},
	{"keep_done", func(w *Workload, by float64) { w.KeepDone = time.Duration(float64(w.KeepDone) * by) }},
	{"single calls", func(w *Workload, by float64) { w.Batch = max(1, w.Batch/by) }},
	{"replication", func(w *Workload, _ float64) { w.Replication = min(5, w.Replication+2) }},
}

// less makes one figure of a machine smaller. Memory is not among the figures, because a part of it goes to
// tombstones, and more tombstones fill disks.
var less = []struct {
	name   string
	shrink func(*Machine, float64)
}{
	{"cores", func(m *Machine, by float64) { m.Cores /= by }},
	{"disk", func(m *Machine, by float64) { m.Disk /= by }},
	{"disk write", func(m *Machine, by float64) { m.DiskWrite /= by }},
	{"syncs", func(m *Machine, by float64) { m.Syncs /= by }},
	{"network", func(m *Machine, by float64) { m.Network /= by }},
}

// takesNoLess reports whether the larger of two loads takes at least as much of every resource. A larger task may take
// less in two cases. Either its tombstones fill their part of the memory, so that fewer are kept and written to
// snapshots. Or its id no longer fits its record and takes more memory: snapshots, due when a log is as long as the
// state, are then fewer.
func takesNoLess(c Costs, w, larger Workload, m Machine, nodes int) bool {
	for _, load := range []Workload{w, larger} {
		s := c.perShard(load, m, shape{nodes: nodes, replication: load.Replication, perNode: 1})
		if s.unbounded > s.tombstones && (w.ID != larger.ID || w.Replication != larger.Replication) {
			return false
		}
	}
	return (w.ID <= inlineID) == (larger.ID <= inlineID)
}

// neverFewer compares the plan of a load and a machine with the plans of larger loads and of smaller machines, one
// figure at a time.
func neverFewer(t rapid.TB, w Workload, m Machine, by float64) {
	c := Measured()
	p, err := smallest(w, m, c, mostNodes)
	if err != nil {
		return // the load is too much already
	}
	for _, figure := range more {
		larger := w
		figure.grow(&larger, by)
		q, err := smallest(larger, m, c, mostNodes)
		if err == nil && q.Nodes < p.Nodes && takesNoLess(c, w, larger, m, q.Nodes) {
			t.Fatalf("more %s: %d nodes rather than %d", figure.name, q.Nodes, p.Nodes)
		}
	}
	for _, figure := range less {
		smaller := m
		figure.shrink(&smaller, by)
		if q, err := smallest(w, smaller, c, mostNodes); err == nil && q.Nodes < p.Nodes {
			t.Fatalf("less %s: %d nodes rather than %d", figure.name, q.Nodes, p.Nodes)
		}
	}
}

func TestMoreLoadNeverNeedsFewerNodes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		neverFewer(t, anyLoad(t), anyMachine(t), rapid.Float64Range(1, 10).Draw(t, "by"))
	})
}

// A plan once refused shapes with fewer shards than the default, which grows with the processors. It needed 59 nodes
// of 16 processors but 58 of 7, although 58 of the larger machines would have done.
func TestMoreProcessorsNeverNeedMoreNodes(t *testing.T) {
	t.Parallel()
	w := Workload{Tasks: 1e8, Rate: 20001, Fires: 20001, ID: 1, Webhooks: 1, Batch: 2, Replication: 5}
	m := Machine{Memory: 2 << 30, Cores: 16, Disk: 50e9, DiskWrite: 50e6, Syncs: 200, Network: 50e6}
	for _, by := range []float64{1.5, 2.25, 4, 10} {
		neverFewer(t, w, m, by)
	}
}

// On a cluster of one shape, more load takes at least as much of every resource.
func TestMoreLoadTakesMoreOfEverything(t *testing.T) {
	t.Parallel()
	c := Measured()
	rapid.Check(t, func(t *rapid.T) {
		w, m := anyLoad(t), anyMachine(t)
		w.Replication = 3
		nodes, leads := rapid.IntRange(3, 40).Draw(t, "nodes"), rapid.IntRange(1, 6).Draw(t, "leads")
		shares := func(w Workload, m Machine) map[string]float64 {
			p, err := evaluate(w, m, c, shape{nodes: nodes, replication: w.Replication, perNode: leads})
			assert.NoError(t, err)
			shareOf := make(map[string]float64)
			for _, n := range p.Needs {
				shareOf[n.Resource] = n.Share()
			}
			return shareOf
		}
		before, by := shares(w, m), rapid.Float64Range(1, 10).Draw(t, "by")
		held := func(change string, after map[string]float64) {
			for resource, share := range after {
				if share < before[resource]*(1-1e-9) {
					t.Fatalf("%s: %g of the %s rather than %g", change, share, resource, before[resource])
				}
			}
		}
		for _, figure := range more {
			larger := w
			figure.grow(&larger, by)
			// With more replicas a lost node's shards are shared by more nodes, each of which leads fewer.
			if larger.Replication == w.Replication && takesNoLess(c, w, larger, m, nodes) {
				held("more "+figure.name, shares(larger, m))
			}
		}
		for _, figure := range less {
			smaller := m
			figure.shrink(&smaller, by)
			held("less "+figure.name, shares(w, smaller))
		}
	})
}

// A small load gets the cluster of three that belfry local runs, with serve's default number of shards.
func TestSmallLoadsGetTheDefault(t *testing.T) {
	t.Parallel()
	for _, tasks := range []float64{1, 1000, 1e6, 20e6} {
		w := DefaultWorkload()
		w.Tasks = tasks
		p, err := Make(w, DefaultMachine(), Measured())
		if err != nil || p.Nodes != 3 || p.Shards != placement.Shards(3, DefaultMachine().Cores) || len(p.Warnings) != 0 {
			t.Errorf("%g tasks: %d nodes, %d shards, %q, %v", tasks, p.Nodes, p.Shards, p.Warnings, err)
		}
	}
}

// After the loss of one node of three, each of the others leads half as many shards again.
func TestLossOfANode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		nodes, perNode, replication, zones, lost int
		want                                     float64
	}{
		{3, 4, 3, 0, 1, 6},
		{3, 4, 3, 3, 1, 6},
		{1, 12, 1, 0, 0, 12},
		{6, 4, 3, 3, 2, 6},
		{9, 4, 3, 3, 3, 6},
		{5, 4, 1, 0, 0, 4},
	} {
		s := shape{nodes: c.nodes, perNode: c.perNode, replication: c.replication}
		lost := s.lost(c.zones)
		got, err := s.leadersAfter(lost)
		if err != nil || lost != c.lost || got != c.want {
			t.Errorf("%+v: %d lost, then %g shards led, %v", c, lost, got, err)
		}
	}
}

// Errors name the flag and its bounds.
func TestLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		edit func(*Workload, *Machine)
		want string
	}{
		{func(w *Workload, _ *Machine) { w.Tasks = 0 }, "--tasks is 0: 1 to 1e12"},
		{func(w *Workload, _ *Machine) { w.Rate = -1 }, "--rate is -1: 0 to 1e9 a second"},
		{func(w *Workload, _ *Machine) { w.Fires = 2000 }, "--fires is 2000: 0 to --rate, 1000: what fires was scheduled"},
		{func(w *Workload, _ *Machine) { w.Payload = 1 << 20 }, "--payload is 1048576: 0 to 262144 bytes, 256KiB"},
		{func(w *Workload, _ *Machine) { w.Labels = 17 }, "--labels is 17: 0 to 16 labels"},
		{func(w *Workload, _ *Machine) { w.ID = 201 }, "--id is 201: 1 to 200 bytes"},
		{func(w *Workload, _ *Machine) { w.Webhooks = 1.1 }, "--webhooks is 1.1: a share, 0 to 1"},
		{func(w *Workload, _ *Machine) { w.Replication = 2 }, "--replication is 2: 1, 3 or 5"},
		{func(_ *Workload, m *Machine) { m.Cores = 0 }, "--node-cores is 0: 0.1 to 4096"},
		{func(_ *Workload, m *Machine) { m.Memory = 1 }, "--node-memory is 1: 256MiB to 64TiB"},
		{func(w *Workload, _ *Machine) { w.Tasks = 1e12 }, "no plan: even with 256 nodes memory would be too little: "},
	} {
		w, m := DefaultWorkload(), DefaultMachine()
		c.edit(&w, &m)
		if _, err := Make(w, m, Measured()); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func TestQuantities(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{
		"1000": 1000, "200k": 200e3, "1.5M": 1.5e6, "1e9": 1e9, "2G": 2e9, "1B": 1e9, "0": 0,
	} {
		if got, err := ParseCount(text); err != nil || got != want {
			t.Errorf("%s is %g, %v", text, got, err)
		}
	}
	for text, want := range map[string]float64{
		"300": 300, "2KiB": 2048, "64GiB": 64 << 30, "500GB": 500e9, "1e3MB": 1e9, "7B": 7,
	} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%s is %g, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "k", "many", "NaN", "1e999", "0x", "10 k", "5KiBB"} {
		got, err := ParseCount(text)
		assert.Error(t, err, "%q is %g things", text, got)
		got, err = ParseBytes(text)
		assert.Error(t, err, "%q is %g bytes", text, got)
	}
}

// Every cost has a description, a method of measurement and a place.
func TestCostsAreWhole(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for id, c := range Measured() {
		if c.Name == "" || names[c.Name] || !(c.Value > 0) || c.Unit == "" || c.What == "" || c.How == "" || c.On == "" {
			t.Errorf("cost %d: %+v", id, c)
		}
		names[c.Name] = true
	}
}
