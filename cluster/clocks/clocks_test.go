package clocks

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/shard"
)

// The true offset is within the bound, however unequal the two one-way delays are.
func TestOffsetIsWithinItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := func(name string, low, high int64) time.Duration {
			return time.Duration(rapid.Int64Range(low, high).Draw(t, name)) * time.Microsecond
		}
		offset := ms("offset", -1e9, 1e9)
		there, work, back := ms("there", 0, 1e6), ms("work", 0, 1e6), ms("back", 0, 1e6)
		asked := time.UnixMilli(1_800_000_000_000)
		received := asked.Add(there + offset)
		answered := received.Add(work)
		lead := ms("lead", -1e9, 1e9)
		s := sampleOf(reading{asked, lead}, received, answered, reading{answered.Add(back - offset), lead})
		assert.MustEqual(t, s.trip, there+back, "trip")
		if (s.ahead - lead - offset).Abs() > s.trip/2+1 {
			t.Fatalf("offset %v ± %v, in truth %v", s.ahead-lead, s.trip/2, offset)
		}
	})
}

func TestBestSampleUntilContradicted(t *testing.T) {
	var h history
	h.add(sample{ahead: 5 * time.Millisecond, trip: 2 * time.Millisecond})
	for range 3 {
		h.add(sample{ahead: 40 * time.Millisecond, trip: 100 * time.Millisecond})
	}
	assert.Equal(t, h.best().ahead, 5*time.Millisecond, "best")
	h.add(sample{ahead: time.Second, trip: 50 * time.Millisecond}) // the clock was set
	if got := h.best().ahead; got != time.Second || len(h.samples) != 1 {
		t.Errorf("after a step: %v of %v", got, h.samples)
	}
	for range 2 * kept {
		h.add(sample{ahead: time.Second, trip: 50 * time.Millisecond})
	}
	assert.Equal(t, len(h.samples), kept, "samples kept")
}

// others are the nodes of a cluster that has more than one.
type others []string

func (o others) Nodes() []string { return o }
func (others) IsAlone() bool     { return false }

// offset are the offsets of nodes; a node without one does not answer.
type offset map[string]time.Duration

func (o offset) AskTime(ctx context.Context, node string) (received, answered time.Time, err error) {
	by, ok := o[node]
	if !ok {
		<-ctx.Done()
		return time.Time{}, time.Time{}, ctx.Err()
	}
	time.Sleep(time.Millisecond) // of the bubble's clock
	at := time.Now().Add(by)
	time.Sleep(time.Millisecond)
	return at, at, nil
}

// clocksOf starts a node among others with the given offsets; a node without an offset does not answer.
func clocksOf(offsets map[string]time.Duration, peers ...string) *Clocks {
	return Start(Config{
		Self: "self", Clock: time.Now, Directory: others(append(peers, "self")), Peers: offset(offsets),
	})
}

// leaving is a directory whose only other node may leave.
type leaving struct {
	others
	gone atomic.Bool
}

func (l *leaving) Nodes() []string {
	if l.gone.Load() {
		return nil
	}
	return l.others
}

func TestAgreement(t *testing.T) {
	for _, c := range []struct {
		name    string
		offsets map[string]time.Duration
		err     error
		apart   bool
	}{
		{"all near", map[string]time.Duration{"a": 10 * time.Millisecond, "b": -10 * time.Millisecond}, nil, false},
		{"one far, one near", map[string]time.Duration{"a": time.Hour, "b": time.Millisecond}, nil, false},
		{"one silent, one near", map[string]time.Duration{"b": time.Millisecond}, nil, false},
		{"both far", map[string]time.Duration{"a": time.Hour, "b": time.Hour}, shard.ErrClockApart, true},
		{"both far, and at odds", map[string]time.Duration{"a": time.Hour, "b": time.Minute}, ErrUnsure, false},
		{"both silent", nil, ErrUnsure, false},
		{"one silent, one far", map[string]time.Duration{"b": time.Hour}, ErrUnsure, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clocks := clocksOf(c.offsets, "a", "b")
				defer clocks.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				began := time.Now()
				err := clocks.Agrees(ctx, []string{"self", "a", "b"})
				if took := time.Since(began); !errors.Is(err, ErrUnsure) && took > 10*time.Millisecond {
					t.Errorf("a silent voter was waited for: %v", took)
				}
				assert.ErrorIs(t, err, c.err, "agrees")
				<-time.After(100 * time.Millisecond) // of the bubble's clock: Agrees does not wait for all
				if by, apart := clocks.Apart(); apart != c.apart {
					t.Errorf("apart: %v, by %v", apart, by)
				}
				for node, want := range c.offsets {
					if got, bound, known := clocks.Offset(node); !known || (got-want).Abs() > bound {
						t.Errorf("%s: %v ± %v, %v; want %v", node, got, bound, known, want)
					}
				}
			})
		})
	}
}

func TestNodesThatLeftAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := &leaving{others: others{"a"}}
		clocks := Start(Config{Self: "self", Clock: time.Now, Directory: nodes, Peers: offset{"a": 0}})
		defer clocks.Close()
		time.Sleep(10 * time.Millisecond) // of the bubble's clock
		if _, _, known := clocks.Offset("a"); !known {
			t.Fatal("a is not known")
		}
		nodes.gone.Store(true)
		time.Sleep(2 * time.Second) // of the bubble's clock
		synctest.Wait()
		if _, _, known := clocks.Offset("a"); !known {
			t.Fatal("a was forgotten although it was here a moment ago")
		}
		time.Sleep(freshFor) // of the bubble's clock
		synctest.Wait()
		if _, _, known := clocks.Offset("a"); known {
			t.Fatal("a is still known")
		}
	})
}
