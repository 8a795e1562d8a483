package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
	"github.com/belfryhq/belfry/shard"
)

func policy(queue string, maxInFlight uint32) *fsmpb.QueuePolicy {
	return &fsmpb.QueuePolicy{Namespace: task.DefaultNamespace, Queue: queue, MaxInFlight: maxInFlight}
}

func setQueue(p *fsmpb.QueuePolicy) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_SetQueue{
		SetQueue: &clusterpb.SetQueue{Policy: p}}}
}

func deleteQueue(queue string) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_DeleteQueue{
		DeleteQueue: &clusterpb.DeleteQueue{Namespace: task.DefaultNamespace, Queue: queue}}}
}

// change applies an entry to a machine, and returns the answer without its index.
func change(t testing.TB, m *machine, e *clusterpb.ControlEntry) (*clusterpb.ControlChanged, error) {
	t.Helper()
	data, err := proto.Marshal(e)
	assert.NoError(t, err)
	answer, err := m.Apply(entry(1, data))
	if err != nil {
		return nil, err
	}
	if refusal, ok := answer.(error); ok {
		return nil, refusal
	}
	changed := answer.(*clusterpb.ControlChanged)
	changed.Index = 0
	return changed, nil
}

// A policy with an outdated expected version changes nothing.
func TestExpectedVersionIsHeld(t *testing.T) {
	m := newMachine()
	set := func(limit uint32, expected uint64) *clusterpb.ControlChanged {
		t.Helper()
		entry := setQueue(policy("q", limit))
		entry.GetSetQueue().Expected = &expected
		done, err := change(t, m, entry)
		assert.NoError(t, err)
		return done
	}
	for i, step := range []struct {
		limit    uint32
		expected uint64
		want     *clusterpb.ControlChanged
	}{
		{1, 7, &clusterpb.ControlChanged{Conflict: true}}, // the queue has no policy yet
		{1, 0, &clusterpb.ControlChanged{QueuesVersion: 1}},
		{2, 0, &clusterpb.ControlChanged{Existed: true, QueuesVersion: 1, Conflict: true}},
		{2, 1, &clusterpb.ControlChanged{Existed: true, QueuesVersion: 2}},
		{3, 1, &clusterpb.ControlChanged{Existed: true, QueuesVersion: 2, Conflict: true}},
		{2, 2, &clusterpb.ControlChanged{Existed: true, QueuesVersion: 2}}, // same values
	} {
		if got := set(step.limit, step.expected); !proto.Equal(got, step.want) {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
	if state, _ := m.watch(); Queue(state, "", "q").MaxInFlight != 2 {
		t.Errorf("the policy is %v", Queue(state, "", "q"))
	}
}

// The policies behave like a map, and every change has a new version.
func TestPoliciesAreAMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newMachine()
		model := make(map[string]uint32)
		version := uint64(0)
		for range rapid.IntRange(1, 40).Draw(rt, "entries") {
			queue := rapid.StringMatching("[a-e]").Draw(rt, "queue")
			limit, had := model[queue]
			entry, changes := deleteQueue(queue), had
			if set := rapid.Bool().Draw(rt, "set"); set {
				next := rapid.Uint32Range(0, 3).Draw(rt, "limit")
				entry, changes = setQueue(policy(queue, next)), !had || limit != next
				model[queue] = next
			} else {
				delete(model, queue)
			}
			before, _ := m.watch()
			kept := proto.CloneOf(before)
			got, err := change(t, m, entry)
			if changes {
				version++
			}
			if err != nil || got.Existed != had || got.QueuesVersion != version {
				rt.Fatalf("%v, %v; there before: %v, and the version %d", got, err, had, version)
			}
			if !proto.Equal(kept, before) {
				rt.Fatal("the state that readers hold was changed")
			}
			compareToModel(rt, m, model, version)
		}
	})
}

func compareToModel(t *rapid.T, m *machine, model map[string]uint32, version uint64) {
	s, _ := m.watch()
	all := Queues(s, "")
	if s.QueuesVersion != version || len(all) != len(model) {
		t.Fatalf("version %d, policies %v; not version %d, %v", s.QueuesVersion, all, version, model)
	}
	for _, p := range all {
		if limit, ok := model[p.Queue]; !ok || p.MaxInFlight != limit || Queue(s, "", p.Queue) != p {
			t.Fatalf("%v is not in %v", p, model)
		}
	}
	if !slices.IsSortedFunc(all, func(a, b *fsmpb.QueuePolicy) int { return strings.Compare(a.Queue, b.Queue) }) {
		t.Fatalf("not sorted: %v", all)
	}
}

func TestNamespacesAreApart(t *testing.T) {
	s := &clusterpb.ControlState{}
	for _, ns := range []string{"b", "a", "default", "a.b"} {
		s = mustApply(t, s, setQueue(&fsmpb.QueuePolicy{Namespace: ns, Queue: "q-" + ns}))
		s = mustApply(t, s, setQueue(&fsmpb.QueuePolicy{Namespace: ns, Queue: "default"}))
	}
	for ns, name := range map[string]string{"a": "a", "b": "b", "a.b": "a.b", "": "default"} {
		all := Queues(s, ns)
		if len(all) != 2 || all[1].Queue != "q-"+name || Queue(s, ns, "") != all[0] {
			t.Errorf("%q: %v", ns, all)
		}
	}
	all := Queues(s, "c")
	assert.Equal(t, len(all), 0, "a namespace without policies: %v", all)
}

// full returns a machine with MaxQueues policies.
func full(t testing.TB) *machine {
	m := newMachine()
	state := &clusterpb.ControlState{ClusterId: plan.ClusterID, QueuesVersion: MaxQueues}
	for i := range MaxQueues {
		p := policy(fmt.Sprintf("queue-%04d", i), 1)
		p.Version = uint64(i + 1)
		p.Target = &fsmpb.Target{Url: "https://receiver.example/a/path", Headers: []*fsmpb.Header{{Name: "x-a", Value: "b"}}}
		p.Secrets = [][]byte{make([]byte, 32)}
		state.Queues = append(state.Queues, p)
	}
	m.state = state
	return m
}

func TestPoliciesAreBounded(t *testing.T) {
	m := full(t)
	var full *task.QueuesFullError
	if _, err := change(t, m, setQueue(policy("one-more", 1))); !errors.As(err, &full) || full.Limit != "4096" ||
		!errors.Is(err, ErrRefused) {
		t.Fatalf("one more: %v", err)
	}
	if got, err := change(t, m, setQueue(policy("queue-0007", 9))); err != nil || !got.Existed {
		t.Errorf("one of them, changed: %v, %v", got, err)
	}
	if got, err := change(t, m, deleteQueue("queue-0008")); err != nil || !got.Existed {
		t.Errorf("one of them, deleted: %v, %v", got, err)
	}
	if got, err := change(t, m, setQueue(policy("one-more", 1))); err != nil || got.Existed {
		t.Errorf("one more, after that: %v, %v", got, err)
	}
}

// Fields of a newer build stay in the state when this build changes other fields.
func TestUnknownFieldsStay(t *testing.T) {
	m := newMachine()
	newer := []byte{0xfa, 0x7f, 2, 'h', 'i'} // field 2047
	assert.NoError(t, m.Restore(io.NopCloser(bytes.NewReader(sealed(newer, 0)))))
	_, err := change(t, m, setQueue(policy("a", 1)))
	assert.NoError(t, err)
	s, _ := m.watch()
	got := s.ProtoReflect().GetUnknown()
	assert.Equal(t, string(got), string(newer), "the fields of a newer version")
}

func BenchmarkSetOneOf4096(b *testing.B) {
	m := full(b)
	for i := 0; b.Loop(); i++ {
		_, err := change(b, m, setQueue(policy("queue-2000", uint32(i+2))))
		assert.NoError(b, err)
	}
}

func BenchmarkSnapshotOf4096(b *testing.B) {
	m := full(b)
	for b.Loop() {
		snap, err := m.Snapshot()
		assert.NoError(b, err)
		var out bytes.Buffer
		if _, err := snap.WriteTo(&out); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(out.Len()))
	}
}

// boot is the number of the present start of the node in these tests.
const boot = 2

// controlled returns the policies of a node with a control group of its own and no shards.
func controlled(t *testing.T) (*Policies, *Group) {
	t.Helper()
	_, transport := raft.NewInmemTransport("a")
	fatal := func(err error) { t.Error(err) }
	disk, err := OpenDisk(raftdisk.Config{Dir: t.TempDir(), Fatal: fatal, Logger: slog.New(slog.DiscardHandler)})
	assert.NoError(t, err)
	g, err := Open(Config{
		NodeID: "a", Bootstrap: []string{"a"}, Storage: disk, Transport: transport,
		Plan: Plan{ClusterID: "c", Shards: 1, Replication: 1}, Heartbeat: 100 * time.Millisecond,
		Shards: idleShards{}, Fatal: fatal,
	})
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.Equal(t, g.Close(), nil)
	})
	for state, changed := g.Watch(); state.ClusterId == ""; state, changed = g.Watch() {
		<-changed
	}
	here := NewReplica(ReplicaConfig{Node: "a", Boot: boot})
	here.Set(g)
	return NewPolicies(here, func() []*shard.Shard { return nil }, nil, nil), g
}

// The policies count as known only after the log has brought this start's registration back.
func TestPoliciesAreKnownOnceRegistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := controlled(t)
		if now, _ := p.Watch(); now.Known {
			t.Error("known before it is registered")
		}
		for _, c := range []struct {
			boot  uint64
			known bool
		}{{boot - 1, false}, {boot, true}} {
			_, changed := p.Watch()
			assert.NoError(t, g.Register(t.Context(), &clusterpb.Node{Id: "a", CommandVersion: 1, Boot: c.boot}))
			<-changed
			now, _ := p.Watch()
			assert.Equal(t, now.Known, c.known, "registered for start %d of %d: known", c.boot, boot)
		}
	})
}

func TestInForceWaitsForTheVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := controlled(t)
		short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, p.InForce(short, 1), context.DeadlineExceeded, "a version that does not come")
		told := make(chan error, 1)
		go func() { told <- p.InForce(t.Context(), 2) }()
		for i := range 2 {
			synctest.Wait()
			select {
			case err := <-told:
				t.Fatalf("told after %d changes: %v", i, err)
			default:
			}
			policy := &fsmpb.QueuePolicy{MaxInFlight: uint32(i + 1)}
			set := &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_SetQueue{SetQueue: &clusterpb.SetQueue{Policy: policy}}}
			_, err := g.Change(t.Context(), &clusterpb.ControlChange{Entry: set})
			assert.NoError(t, err)
		}
		assert.Equal(t, <-told, nil)
		if got := p.Policy("", ""); got.GetMaxInFlight() != 2 || got.Version != 2 {
			t.Errorf("the policy is %v", got)
		}
	})
}
