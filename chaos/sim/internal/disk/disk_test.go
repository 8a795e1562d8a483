package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
)

// life is a process that does nothing but end.
type life struct {
	ctx context.Context
	end context.CancelFunc
}

func newLife() *life {
	ctx, cancel := context.WithCancel(context.Background())
	return &life{ctx, cancel}
}

func (l *life) Life() context.Context { return l.ctx }
func (l *life) Gate() bool            { return l.ctx.Err() == nil }

func (l *life) Sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-l.ctx.Done():
		return false
	}
}

func entries(from, to uint64) []*raft.Log {
	var logs []*raft.Log
	for i := from; i <= to; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: 1, Data: []byte(fmt.Sprint(i))})
	}
	return logs
}

func bounds(t *testing.T, s *Stores) string {
	t.Helper()
	first, err1 := s.FirstIndex()
	last, err2 := s.LastIndex()
	assert.NoError(t, errors.Join(err1, err2))
	return fmt.Sprintf("%d to %d", first, last)
}

func TestWhatIsAcknowledgedStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(1, Trouble{Delay: time.Millisecond})
		first := newLife()
		s := d.Open(first, time.Second, func(err error) { t.Error(err) })
		if !d.Empty() {
			t.Error("a new disk is not empty")
		}
		if err := errors.Join(s.StoreLogs(entries(1, 10)), s.SetUint64([]byte("term"), 5), s.Set([]byte("vote"), []byte("n1")),
			s.DeleteRange(1, 3), s.DeleteRange(9, 10), s.StoreLog(&raft.Log{Index: 9, Term: 2})); err != nil {
			t.Fatal(err)
		}
		d.Crash()
		first.end()
		if err := errors.Join(s.StoreLogs(entries(10, 20)), s.SetUint64([]byte("term"), 6)); err != nil {
			t.Errorf("a write of a dead process failed: %v", err)
		}
		next := d.Open(newLife(), time.Second, func(err error) { t.Error(err) })
		assert.Equal(t, bounds(t, next), "4 to 9", "the log")
		var nine raft.Log
		if err := next.GetLog(9, &nine); err != nil || nine.Term != 2 {
			t.Errorf("%+v, %v", nine, err)
		}
		if err := next.GetLog(10, &nine); err != raft.ErrLogNotFound {
			t.Errorf("entry 10: %v", err)
		}
		term, err1 := next.GetUint64([]byte("term"))
		vote, err2 := next.Get([]byte("vote"))
		if term != 5 || string(vote) != "n1" || errors.Join(err1, err2) != nil {
			t.Errorf("term %d, vote %s, %v, %v", term, vote, err1, err2)
		}
		if _, err := next.Get([]byte("else")); err == nil || err.Error() != "not found" {
			t.Errorf("%v", err)
		}
	})
}

// TestTornWrite checks that any first part of a write may survive a crash, the whole and nothing included.
func TestTornWrite(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			d := New(seed, Trouble{Delay: time.Second})
			p := newLife()
			s := d.Open(p, time.Minute, func(err error) { t.Error(err) })
			assert.NoError(t, s.StoreLogs(entries(1, 2)))
			time.AfterFunc(500*time.Millisecond, func() { d.Crash(); p.end() })
			assert.NoError(t, s.StoreLogs(entries(3, 5)))
			seen[bounds(t, d.Open(newLife(), time.Minute, nil))]++
		})
	}
	for _, want := range []string{"1 to 2", "1 to 3", "1 to 4", "1 to 5"} {
		if seen[want] == 0 {
			t.Errorf("never %s: %v", want, seen)
		}
	}
	assert.Equal(t, len(seen), 4, "%v", seen)
}

func TestTroubleIsFatal(t *testing.T) {
	for name, trouble := range map[string]Trouble{
		"hangs": {Hang: true}, "fails": {Fail: 1}, "slow": {Delay: 11 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := New(1, Trouble{})
				p := newLife()
				var got error
				s := d.Open(p, 10*time.Second, func(err error) { got = err; d.Crash(); p.end() })
				if err := s.StoreLogs(entries(1, 2)); err != nil || got != nil {
					t.Fatal(err, got)
				}
				d.Set(trouble)
				if err := s.StoreLogs(entries(3, 5)); err != nil || !Ended(got) {
					t.Errorf("%v, fatal %v", err, got)
				}
				if stats := d.Stats(); stats.Failed != 1 || stats.Writes != 2 {
					t.Errorf("%+v", stats)
				}
			})
		})
	}
}

func TestGapsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, Trouble{}).Open(newLife(), time.Second, nil)
		assert.NoError(t, s.StoreLogs(entries(5, 9)))
		if s.StoreLogs(entries(11, 12)) == nil || s.DeleteRange(6, 7) == nil {
			t.Error("a gap was accepted")
		}
		if err := s.DeleteRange(0, 100); err != nil || bounds(t, s) != "0 to 0" {
			t.Errorf("%v, %s", err, bounds(t, s))
		}
		if err := s.StoreLogs(entries(40, 41)); err != nil || !s.IsMonotonic() {
			t.Error(err)
		}
	})
}

func persist(t *testing.T, s *Stores, index, term uint64, content string) {
	t.Helper()
	sink, err := s.Snapshots().Create(1, index, term, raft.Configuration{}, 1, nil)
	assert.NoError(t, err)
	if _, err := sink.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	assert.NoError(t, sink.Close())
}

func TestSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(1, Trouble{})
		s := d.Open(newLife(), time.Second, nil)
		for i, content := range []string{"one", "two", "three"} {
			persist(t, s, uint64(10*(i+1)), 1, content)
		}
		cancelled, err := s.Snapshots().Create(1, 40, 1, raft.Configuration{}, 1, nil)
		if err != nil || cancelled.Cancel() != nil || cancelled.Close() != nil {
			t.Fatal(err)
		}
		list, err := s.Snapshots().List()
		if err != nil || len(list) != 2 || list[0].Index != 30 || list[1].Index != 20 || list[0].Size != 5 {
			t.Fatalf("%+v, %v", list, err)
		}
		_, r, err := s.Snapshots().Open(list[1].ID)
		assert.NoError(t, err)
		if content, err := io.ReadAll(r); string(content) != "two" || err != nil {
			t.Errorf("%s, %v", content, err)
		}
		if _, _, err := s.Snapshots().Open("none"); err == nil {
			t.Error("a snapshot that does not exist was opened")
		}
		if data, index := d.Newest(); string(data) != "three" || index != 30 {
			t.Errorf("%s at %d", data, index)
		}
	})
}

// TestLogBehindSnapshot checks that a log that does not continue the newest snapshot is dropped when the disk is
// opened.
func TestLogBehindSnapshot(t *testing.T) {
	for _, c := range []struct {
		name        string
		log         []*raft.Log
		index, term uint64
		want        string
	}{
		{"ends before it", entries(1, 5), 9, 1, "0 to 0"},
		{"contradicts it", entries(1, 12), 9, 2, "0 to 0"},
		{"overlaps", entries(1, 12), 9, 1, "1 to 12"},
		{"goes on", entries(10, 12), 9, 1, "10 to 12"},
		{"begins behind a gap", entries(11, 12), 9, 1, "0 to 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := New(1, Trouble{})
				s := d.Open(newLife(), time.Second, nil)
				assert.NoError(t, s.StoreLogs(c.log))
				persist(t, s, c.index, c.term, "state")
				d.Crash()
				assert.Equal(t, bounds(t, d.Open(newLife(), time.Second, nil)), c.want, "the log")
			})
		})
	}
}
