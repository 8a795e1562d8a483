package raftgroup

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// TestFateOfAnEntry checks each order in which a replica may learn an entry's place in the log and what was applied.
func TestFateOfAnEntry(t *testing.T) {
	type step func(f *fates, one *fate)
	place := func(index uint64) step { return func(f *fates, one *fate) { f.place(one, index) } }
	see := func(index uint64, data string) step {
		return func(f *fates, _ *fate) { f.see(index, []byte(data), index) }
	}
	cover := func(f *fates, _ *fate) { f.cover() }
	const open, kept, replaced = "open", "kept", "replaced"
	for name, c := range map[string]struct {
		steps []step
		want  string
	}{
		"nothing is known":                    {nil, open},
		"its place alone":                     {[]step{place(7)}, open},
		"applied before its place is known":   {[]step{see(7, "mine"), see(8, "other"), place(7)}, kept},
		"applied afterwards":                  {[]step{place(7), see(6, "other"), see(7, "mine")}, kept},
		"another one in its place":            {[]step{place(7), see(7, "other")}, replaced},
		"an entry of Raft's in its place":     {[]step{see(6, "other"), see(8, "other"), place(7)}, replaced},
		"equal bytes in another place":        {[]step{place(7), see(6, "mine"), see(7, "other")}, replaced},
		"not applied yet":                     {[]step{see(6, "other"), place(7)}, open},
		"a snapshot may hold it":              {[]step{place(7), cover, see(9, "other")}, open},
		"a snapshot after it":                 {[]step{see(7, "mine"), cover, place(7)}, kept},
		"applied again after a late snapshot": {[]step{place(7), cover, see(7, "mine")}, kept},
	} {
		t.Run(name, func(t *testing.T) {
			var f fates
			one := f.follow([]byte("mine"))
			for _, s := range c.steps {
				s(&f, one)
			}
			got := open
			if one.isDecided() && one.kept {
				got = kept
			} else if one.isDecided() {
				got = replaced
			}
			if got != c.want || got == kept && one.answer != uint64(7) {
				t.Errorf("%s, want %s; answer %v", got, c.want, one.answer)
			}
			if f.forget(one); len(f.list) > 0 {
				t.Errorf("%d are followed", len(f.list))
			}
		})
	}
}

// wired is a group of three replicas whose wires a test can cut.
type wired struct {
	wires   map[raft.ServerID]*raft.InmemTransport
	leaders chan *Group // each replica that begins to lead
	leader  *Group      // the first of them
	mute    atomic.Bool // no answer to a request with entries arrives, nor to a heartbeat
}

// mutable is a transport whose followers' answers can be lost.
type mutable struct {
	*raft.InmemTransport
	mute *atomic.Bool
}

var errMute = errors.New("the answer was lost")

func (m mutable) AppendEntries(id raft.ServerID, addr raft.ServerAddress,
	req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	err := m.InmemTransport.AppendEntries(id, addr, req, resp)
	if m.mute.Load() {
		return errMute
	}
	return err
}

func (mutable) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

func openWired(t *testing.T) *wired {
	t.Helper()
	o := &wired{wires: map[raft.ServerID]*raft.InmemTransport{}, leaders: make(chan *Group, 16)}
	voters := []string{"a", "b", "c"}
	for _, id := range voters {
		_, o.wires[raft.ServerID(id)] = raft.NewInmemTransport(raft.ServerAddress(id))
	}
	for _, id := range voters {
		split(o.wires, raft.ServerID(id), true)
		g, err := Open(Config{
			Name: "group 7", NodeID: id, Machine: &journalist{}, Storage: newMemory(), Voters: voters,
			Transport: mutable{o.wires[raft.ServerID(id)], &o.mute}, Fatal: func(err error) { t.Error(err) },
			Timing: Timing{Heartbeat: time.Second, Election: time.Second, Lease: time.Second, Commit: time.Second},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closed(t, g) })
		g.Lead(func(ctx context.Context) {
			o.leaders <- g
			<-ctx.Done()
		})
	}
	o.leader = <-o.leaders
	<-time.After(time.Second) // all follow
	return o
}

// split cuts one replica's wire from the others' wires, or joins it again.
func split(wires map[raft.ServerID]*raft.InmemTransport, one raft.ServerID, joined bool) {
	for id, wire := range wires {
		switch {
		case id == one:
		case joined:
			wire.Connect(raft.ServerAddress(one), wires[one])
			wires[one].Connect(raft.ServerAddress(id), wire)
		default:
			wire.Disconnect(raft.ServerAddress(one))
			wires[one].Disconnect(raft.ServerAddress(id))
		}
	}
}

// TestLostEntryIsReplaced checks that a leader that was cut off learns that the next leader has replaced its entry.
func TestLostEntryIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := openWired(t)
		split(o.wires, raft.ServerID(o.leader.cfg.NodeID), false)
		_, err := o.leader.Commit(t.Context(), []byte("lost"))
		var lost *LostError
		if !errors.As(err, &lost) {
			t.Fatalf("cut off: %v", err)
		}
		next := <-o.leaders
		if _, err := next.Commit(t.Context(), []byte("another")); err != nil {
			t.Fatal(err)
		}
		split(o.wires, raft.ServerID(o.leader.cfg.NodeID), true)
		if answer, err := lost.Outcome(t.Context()); !errors.Is(err, ErrReplaced) {
			t.Errorf("%v, %v", answer, err)
		}
	})
}

// TestLostEntryIsUnknown checks that the outcome stays unknown for a leader that stays cut off.
func TestLostEntryIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := openWired(t)
		split(o.wires, raft.ServerID(o.leader.cfg.NodeID), false)
		_, err := o.leader.Commit(t.Context(), []byte("lost"))
		var lost *LostError
		if !errors.As(err, &lost) {
			t.Fatalf("cut off: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if answer, err := lost.Outcome(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v", answer, err)
		}
		split(o.wires, raft.ServerID(o.leader.cfg.NodeID), true)
	})
}

// TestLostEntryIsKept checks that a deposed leader gets the machine's answer to an entry that a follower had received.
func TestLostEntryIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := openWired(t)
		o.mute.Store(true) // followers receive entries, and their answers are lost
		errs := make(chan error, 1)
		go func() { _, err := o.leader.Commit(t.Context(), []byte("lost")); errs <- err }()
		var lost *LostError
		if err := <-errs; !errors.As(err, &lost) {
			t.Fatalf("deposed: %v", err)
		}
		o.mute.Store(false)
		if answer, err := lost.Outcome(t.Context()); err != nil || answer != 1 {
			t.Errorf("%v, %v", answer, err)
		}
	})
}
