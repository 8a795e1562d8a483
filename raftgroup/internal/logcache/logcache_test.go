package logcache

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/internal/assert"
)

// countingStore counts reads, and fails writes when the test asks for it.
type countingStore struct {
	*raft.InmemStore
	reads  int
	broken error
}

func (s *countingStore) GetLog(index uint64, entry *raft.Log) error {
	s.reads++
	return s.InmemStore.GetLog(index, entry)
}

func (s *countingStore) StoreLogs(entries []*raft.Log) error {
	if s.broken != nil {
		return s.broken
	}
	return s.InmemStore.StoreLogs(entries)
}

func (s *countingStore) IsMonotonic() bool { return true }

func entries(first, last uint64, size int, mark byte) []*raft.Log {
	var all []*raft.Log
	for i := first; i <= last; i++ {
		data := make([]byte, size)
		for j := range data {
			data[j] = mark
		}
		all = append(all, &raft.Log{Index: i, Term: uint64(mark), Data: data})
	}
	return all
}

// TestCacheAnswersAsTheStore checks that the cache answers as the store does and keeps within its limit, whatever is
// written, cut and read.
func TestCacheAnswersAsTheStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 2000
		plain := raft.NewInmemStore()
		c := New(&countingStore{InmemStore: raft.NewInmemStore()}, limit)
		next, mark := uint64(1), byte(0)
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				mark++
				n, size := rapid.Uint64Range(1, 5).Draw(t, "n"), rapid.IntRange(0, 1500).Draw(t, "size")
				for _, s := range []raft.LogStore{plain, c} {
					assert.NoError(t, s.StoreLogs(entries(next, next+n-1, size, mark)))
				}
				next += n
			},
			"cut": func(t *rapid.T) { // the tail, as before entries of another leader, or the head
				from, to := rapid.Uint64Range(1, next).Draw(t, "from"), next
				if rapid.Bool().Draw(t, "head") {
					from, to = 1, rapid.Uint64Range(1, next).Draw(t, "to")
				} else {
					next = from
				}
				for _, s := range []raft.LogStore{plain, c} {
					assert.NoError(t, s.DeleteRange(from, to))
				}
			},
			"skip": func(*rapid.T) { next += 3 }, // as after the install of a snapshot
			"": func(t *rapid.T) {
				for i := uint64(0); i <= next; i++ {
					var want, got raft.Log
					wantErr, err := plain.GetLog(i, &want), c.GetLog(i, &got)
					if !errors.Is(err, wantErr) || got.Term != want.Term || !bytes.Equal(got.Data, want.Data) {
						t.Fatalf("entry %d is of term %d, %v, want %d, %v", i, got.Term, err, want.Term, wantErr)
					}
				}
				if c.bytes > limit && len(c.entries) > 1 {
					t.Fatalf("%d bytes in %d entries", c.bytes, len(c.entries))
				}
			},
		})
	})
}

func TestNewestIsRead(t *testing.T) {
	s := &countingStore{InmemStore: raft.NewInmemStore()}
	c := New(s, 1000)
	assert.NoError(t, c.StoreLogs(entries(1, 3, 300, 'a')))
	assert.NoError(t, c.StoreLog(entries(4, 4, 5000, 'b')[0]))
	for i, want := range map[uint64]int{4: 0, 3: 1, 1: 1} {
		s.reads = 0
		var e raft.Log
		if err := c.GetLog(i, &e); err != nil || e.Index != i || s.reads != want {
			t.Errorf("entry %d: index %d, %v, %d reads of the store, want %d", i, e.Index, err, s.reads, want)
		}
	}
	if !c.IsMonotonic() || New(raft.NewInmemStore(), 1).IsMonotonic() {
		t.Error("whether the log refuses gaps is the store's to say")
	}
}

// TestQuietLogKeepsTheNewest checks that a log without writes keeps only its newest entry in memory.
func TestQuietLogKeepsTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &countingStore{InmemStore: raft.NewInmemStore()}
		c := New(s, 1000)
		reads := func(index uint64) int {
			t.Helper()
			s.reads = 0
			var e raft.Log
			if err := c.GetLog(index, &e); err != nil || e.Index != index {
				t.Errorf("entry %d: index %d, %v", index, e.Index, err)
			}
			return s.reads
		}
		for i := range uint64(4) { // each a moment before the log counts as quiet
			assert.NoError(t, c.StoreLogs(entries(i+1, i+1, 10, 'a')))
			<-time.After(untilQuiet - 1)
		}
		assert.Equal(t, reads(1), 0, "a busy log's entries are forgotten")
		<-time.After(2)
		if reads(3) != 1 || reads(4) != 0 {
			t.Error("a quiet log keeps an older entry, or not its newest one")
		}
		if err := c.StoreLogs(entries(5, 5, 10, 'a')); err != nil || reads(4) != 0 || reads(5) != 0 {
			t.Errorf("the next entry is not kept: %v", err)
		}
	})
}

func TestWhatWasNotWrittenIsNotKept(t *testing.T) {
	s := &countingStore{InmemStore: raft.NewInmemStore(), broken: errors.New("no disk")}
	c := New(s, 1000)
	if err := c.StoreLogs(entries(1, 2, 10, 'a')); !errors.Is(err, s.broken) {
		t.Fatalf("error %v", err)
	}
	var e raft.Log
	assert.ErrorIs(t, c.GetLog(1, &e), raft.ErrLogNotFound, "entry %v", e)
}
