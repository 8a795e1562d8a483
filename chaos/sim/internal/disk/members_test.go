package disk

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
)

func configured(index uint64, ids ...raft.ServerID) *raft.Log {
	var c raft.Configuration
	for _, id := range ids {
		c.Servers = append(c.Servers, raft.Server{ID: id, Address: raft.ServerAddress(id)})
	}
	return &raft.Log{Index: index, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(c)}
}

// TestMembersAreReported checks that each configuration is reported with the one before it in the log, also if both
// come in one write.
func TestMembersAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(1, Trouble{})
		var got []Reconfiguration
		d.Watch(func(r Reconfiguration) { got = append(got, r) })
		s := d.Open(newLife(), time.Second, func(err error) { t.Error(err) })
		for _, logs := range [][]*raft.Log{
			{configured(1, "a")}, entries(2, 3), {configured(4, "a", "b"), configured(5, "a", "b", "c")},
		} {
			assert.NoError(t, s.StoreLogs(logs))
		}
		assert.MustEqual(t, len(got), 3, "%v", got)
		for i, r := range got {
			if len(r.Before.Servers) != i || len(r.After.Servers) != i+1 {
				t.Errorf("%v", r)
			}
		}
		if index, c := d.Configuration(4); index != 4 || len(c.Servers) != 2 {
			t.Errorf("up to 4: entry %d, %v", index, c)
		}
	})
}

// TestWipedDiskIsEmpty checks that a wiped disk takes nothing from the process that had it.
func TestWipedDiskIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(1, Trouble{})
		s := d.Open(newLife(), time.Second, func(err error) { t.Error(err) })
		if err := s.StoreLogs(entries(1, 3)); err != nil || d.Last() != 3 {
			t.Fatalf("%v, last %d", err, d.Last())
		}
		d.Wipe()
		if err := s.StoreLogs(entries(4, 5)); err != nil || !d.Empty() || d.Last() != 0 {
			t.Errorf("%v, empty %v, last %d", err, d.Empty(), d.Last())
		}
	})
}
