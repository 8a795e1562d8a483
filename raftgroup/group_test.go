package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
)

// journalist is a Machine whose state is the text of its entries, line by line. It cannot apply an entry "bad".
type journalist struct{ lines []string }

var errBad = errors.New("this entry cannot be read")

func (j *journalist) Apply(e Entry) (any, error) {
	if !e.Command {
		return nil, nil
	}
	if string(e.Data) == "bad" {
		return nil, errBad
	}
	j.lines = append(j.lines, string(e.Data))
	return len(j.lines), nil
}

func (j *journalist) Snapshot() (Snapshot, error) { return page(strings.Join(j.lines, "\n")), nil }

func (j *journalist) Restore(r io.Reader) error {
	text, err := io.ReadAll(r)
	j.lines = strings.Split(string(text), "\n")
	return err
}

type page string

func (p page) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, string(p))
	return int64(n), err
}

func (page) Release() {}

// memory is a Storage that outlives its group.
type memory struct {
	*raft.InmemStore
	snapshots raft.SnapshotStore
}

func newMemory() memory { return memory{raft.NewInmemStore(), raft.NewInmemSnapshotStore()} }

func (m memory) Log() raft.LogStore            { return m.InmemStore }
func (m memory) Stable() raft.StableStore      { return stable{m.InmemStore} }
func (m memory) Snapshots() raft.SnapshotStore { return m.snapshots }
func (m memory) Close() error                  { return nil }

// stable returns an error for a number that was never set, as the stores of production do.
type stable struct{ *raft.InmemStore }

func (s stable) SetUint64(key []byte, n uint64) error {
	return errors.Join(s.Set(append([]byte("has "), key...), key), s.InmemStore.SetUint64(key, n))
}

func (s stable) GetUint64(key []byte) (uint64, error) {
	if _, err := s.Get(append([]byte("has "), key...)); err != nil {
		return 0, err
	}
	return s.InmemStore.GetUint64(key)
}

// TestCopyThatNoLeaderReachedOpensAgain checks that a replica that joins waits for the group's leader in its second
// process too, although it has neither a term nor a log.
func TestCopyThatNoLeaderReachedOpensAgain(t *testing.T) {
	cfg := Config{
		Name: "group 7", NodeID: "a", Machine: &journalist{}, Storage: newMemory(), Fatal: func(err error) { t.Error(err) },
		Timing: Timing{Heartbeat: time.Second, Election: time.Second, Lease: time.Second, Commit: time.Second},
	}
	for _, existing := range []bool{false, true} {
		_, cfg.Transport = raft.NewInmemTransport("a")
		cfg.Existing = existing
		g, err := Open(cfg)
		assert.NoError(t, err, "existing %v", existing)
		closed(t, g)
	}
}

// open opens a group of one replica in memory, and waits until it leads.
func open(t *testing.T, change func(*Config)) (g *Group, machine *journalist, fatals chan error) {
	t.Helper()
	machine, fatals = &journalist{}, make(chan error, 8)
	_, transport := raft.NewInmemTransport("a")
	cfg := Config{
		Name: "group 7", NodeID: "a", Machine: machine, Storage: newMemory(), Transport: transport, Voters: []string{"a"},
		Timing: Timing{
			Heartbeat: time.Second, Election: time.Second, Lease: time.Second, Commit: time.Second, Stuck: time.Minute,
		},
		Snapshots: SnapshotConfig{Bytes: 10, Tail: 2, TailBytes: 100},
		Fatal:     func(err error) { fatals <- err },
	}
	if change != nil {
		change(&cfg)
	}
	g, err := Open(cfg)
	assert.NoError(t, err)
	led := make(chan struct{})
	g.Lead(func(ctx context.Context) {
		close(led)
		<-ctx.Done()
	})
	<-led
	return g, machine, fatals
}

func closed(t *testing.T, g *Group) {
	t.Helper()
	assert.Equal(t, g.Close(), nil)
}

// TestProposals checks that the machine's answers reach the proposer in order, and that a grown log can be cut behind a
// snapshot.
func TestProposals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := newMemory()
		g, _, _ := open(t, func(cfg *Config) { cfg.Storage = storage })
		for i := range 20 {
			propose := g.Propose
			if i%2 == 0 {
				propose = g.Commit
			}
			if answer, err := propose(t.Context(), fmt.Append(nil, "line ", i)); err != nil || answer != i+1 {
				t.Fatalf("entry %d: %v, %v", i, answer, err)
			}
		}
		<-g.Grown()
		assert.NoError(t, g.Snapshot())
		assert.Equal(t, g.Snapshot(), nil, "with nothing new")
		if first, err := storage.FirstIndex(); err != nil || first < 10 || g.LogBytes() != 0 {
			t.Errorf("the log begins at %d with %d bytes since, %v", first, g.LogBytes(), err)
		}
		assert.Equal(t, errors.Join(g.Barrier(t.Context()), g.Verify(t.Context(), g.Term())), nil)
		if s := g.Stats(); s.Role != "leader" || s.Leader != "a" || s.Committed != s.Last {
			t.Errorf("%+v", s)
		}
		closed(t, g)

		again, machine, _ := open(t, func(cfg *Config) { cfg.Storage, cfg.Existing = storage, true })
		defer closed(t, again)
		if err := again.Barrier(t.Context()); err != nil || len(machine.lines) != 20 || machine.lines[19] != "line 19" {
			t.Errorf("after a restart: %q, %v", machine.lines, err)
		}
	})
}

// TestStoppedGroupRefuses checks that a stopped group refuses entries with ErrRefused: no log has seen them.
func TestStoppedGroupRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, _ := open(t, nil)
		closed(t, g)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := g.Propose(ctx, []byte("late"))
		assert.ErrorIs(t, err, ErrRefused, "proposed")
		_, err = g.Commit(ctx, []byte("late"))
		assert.ErrorIs(t, err, ErrRefused, "committed")
		assert.Error(t, g.Verify(ctx, 2), "a stopped group proved that it leads")
	})
}

// TestEntryThatCannotBeApplied checks that a machine that fails at an entry applies none after it, takes no snapshot,
// and ends the group once.
func TestEntryThatCannotBeApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, machine, fatals := open(t, nil)
		defer closed(t, g)
		_, err := g.Commit(t.Context(), []byte("good"))
		assert.NoError(t, err)
		_, err = g.Propose(t.Context(), []byte("bad"))
		assert.ErrorIs(t, err, errBad, "answered with")
		if err := <-fatals; !errors.Is(err, errBad) || !strings.Contains(err.Error(), "group 7") {
			t.Errorf("ended with %v", err)
		}
		if answer, ok := g.applier.Apply(&raft.Log{Index: 9, Data: []byte("good")}).(failure); !ok {
			t.Errorf("it went on: %v", answer)
		}
		_, err = g.applier.Snapshot()
		assert.ErrorIs(t, err, errBad, "a snapshot of a state that lacks an entry")
		assert.ErrorIs(t, g.applier.Restore(io.NopCloser(strings.NewReader(""))), errBad, "restored")
		if len(machine.lines) != 1 || len(fatals) > 0 {
			t.Errorf("%d lines, and Fatal was called %d times more", len(machine.lines), len(fatals))
		}
	})
}

// TestLostState checks that a replica that lost its state does not start the group anew.
func TestLostState(t *testing.T) {
	_, transport := raft.NewInmemTransport("a")
	_, err := Open(Config{
		NodeID: "a", Machine: &journalist{}, Storage: newMemory(), Transport: transport, Voters: []string{"a"},
		Existing: true, Fatal: func(error) {},
		Timing: Timing{Heartbeat: time.Second, Election: time.Second, Lease: time.Second, Commit: time.Second},
	})
	assert.ErrorIs(t, err, ErrNoState)
}

func TestConfigIsChecked(t *testing.T) {
	_, transport := raft.NewInmemTransport("a")
	good := Config{
		NodeID: "a", Machine: &journalist{}, Storage: newMemory(), Transport: transport, Fatal: func(error) {},
		Timing: Timing{Heartbeat: 2, Election: 3, Lease: 1},
	}
	if full, err := good.withDefaults(); err != nil || full.Logger == nil {
		t.Errorf("%+v, %v", full, err)
	}
	for name, spoil := range map[string]func(*Config){
		"no node":      func(c *Config) { c.NodeID = "" },
		"no machine":   func(c *Config) { c.Machine = nil },
		"no storage":   func(c *Config) { c.Storage = nil },
		"no transport": func(c *Config) { c.Transport = nil },
		"no fatal":     func(c *Config) { c.Fatal = nil },
		"lease":        func(c *Config) { c.Timing.Lease = 3 },
		"election":     func(c *Config) { c.Timing.Election = 1 },
	} {
		bad := good
		spoil(&bad)
		_, err := bad.withDefaults()
		assert.Error(t, err, "%s: accepted", name)
	}
}
