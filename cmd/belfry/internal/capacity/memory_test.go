// The tests of this file run in one goroutine, and take minutes under the race detector.

//go:build !race

package capacity

import (
	"log/slog"
	"math"
	"testing"

	"github.com/belfryhq/belfry/cluster/headroom"
)

// holding is a node whose tasks hold so many bytes.
type holding int64

func (h holding) Tasks() headroom.Tasks { return headroom.Tasks{Held: int64(h)} }

// large is a host with memory enough.
type large struct{ headroom.Host }

func (large) Heap() headroom.Heap { return headroom.Heap{} }

func (large) Machine() (headroom.Machine, error) {
	return headroom.Machine{Total: 64 << 30, Available: 64 << 30}, nil
}

// A plan uses exactly the memory up to which a node with the default limit takes tasks.
func TestMemoryIsPlannedToWhereANodeIsFull(t *testing.T) {
	t.Parallel()
	p, err := Make(DefaultWorkload(), DefaultMachine(), Measured())
	if err != nil {
		t.Fatal(err)
	}
	n := p.Need(Memory)
	full := func(held float64) bool {
		w := headroom.NewMemory(headroom.MemoryConfig{
			Limit: int64(p.Machine.Memory / 4 * 3), Node: holding(held), Host: large{},
			Logger: slog.New(slog.DiscardHandler),
		})
		return w.Full() != ""
	}
	for _, allowed := range []float64{n.Allow, n.AllowOf} {
		if full(allowed*0.999) || !full(allowed*1.001) {
			t.Errorf("a plan may use %g bytes of %g, and a node is full elsewhere", allowed, n.Have)
		}
	}
}

// Tombstones have a tenth of the memory limit, as serve gives it to them, not a tenth of the machine's memory.
func TestTombstonesOfALongMemory(t *testing.T) {
	t.Parallel()
	w, m, c := DefaultWorkload(), DefaultMachine(), Measured()
	w.KeepDone *= 1e4
	s := shape{nodes: 3, replication: 3, perNode: 4}
	got := c.perShard(w, m, s).tombstones * c.value(tombstoneMemory) * float64(s.replicas())
	if want := 0.75 * m.Memory / 10; math.Abs(got-want) > 1 {
		t.Errorf("%g bytes, want %g", got, want)
	}
}

// Labels take memory, and bytes in the log and in snapshots.
func TestLabelsAreCounted(t *testing.T) {
	t.Parallel()
	c, m, s := Measured(), DefaultMachine(), shape{nodes: 3, replication: 3, perNode: 4}
	w := DefaultWorkload()
	plain := c.perShard(w, m, s)
	w.Labels = 2
	labelled := c.perShard(w, m, s)
	added := 2 * c.value(labelMemory) * (plain.tasks + plain.tombstones)
	if got := labelled.state - plain.state; math.Abs(got-added) > 1 {
		t.Errorf("two labels take %g bytes of a shard's memory, want %g", got, added)
	}
	if got, want := labelled.commandBytes-plain.commandBytes, 2*c.value(labelBytes)*w.Rate/12; math.Abs(got-want) > 1 {
		t.Errorf("two labels take %g bytes of the log a second, want %g", got, want)
	}
	if labelled.snapshot <= plain.snapshot {
		t.Error("two labels take no bytes in a snapshot")
	}
}

// The bytes of the log caches do not depend on the size of entries.
func TestLogCachesDoNotGrowWithEntries(t *testing.T) {
	t.Parallel()
	c := Measured()
	groups := func(payload int) float64 {
		w := DefaultWorkload()
		w.Payload = payload
		for _, part := range c.nodeOf(w, DefaultMachine(), shape{nodes: 3, replication: 3, perNode: 4}, 0, 4).memory() {
			if part.What == "groups and their log caches" {
				return part.Value
			}
		}
		t.Fatal("no part is called so")
		return 0
	}
	if small, large := groups(10), groups(100_000); small != large || small < 12*256<<10 {
		t.Errorf("%g bytes with small payloads, %g with large ones", small, large)
	}
}
