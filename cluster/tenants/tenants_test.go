package tenants

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
)

// boot is the number of the present start of the node in these tests.
const boot = 2

// still are shards that get no call.
type still struct{ control.Shards }

func (still) Up(string) bool { return true }

func (still) Faults(context.Context) []control.Fault { return nil }

func (still) Commands(context.Context) map[uint32]uint64 { return nil }

// group opens a control group of one node.
func group(t *testing.T) *control.Group {
	t.Helper()
	_, transport := raft.NewInmemTransport("a")
	fatal := func(err error) { t.Error(err) }
	disk, err := control.OpenDisk(raftdisk.Config{Dir: t.TempDir(), Fatal: fatal, Logger: slog.New(slog.DiscardHandler)})
	assert.NoError(t, err)
	g, err := control.Open(control.Config{
		NodeID: "a", Bootstrap: []string{"a"}, Storage: disk, Transport: transport,
		Plan: control.Plan{ClusterID: "c", Shards: 1, Replication: 1}, Heartbeat: 100 * time.Millisecond,
		Shards: still{}, Fatal: fatal,
	})
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.Equal(t, g.Close(), nil)
	})
	return g
}

// start returns the replica of node a in one of its starts.
func start(boot uint64) *control.Replica {
	return control.NewReplica(control.ReplicaConfig{Node: "a", Boot: boot, Nodes: &ledger{}})
}

// empty is the id of a cluster without tasks.
type empty string

func (e empty) ClusterID() string { return string(e) }

func (empty) Count(context.Context, string) (uint64, error) { return 0, nil }

func alone(cfg Config) Config {
	cfg.Identity, cfg.Tasks = empty("c"), empty("c")
	return cfg
}

func withKey(id string, version uint64) *clusterpb.ControlState {
	return &clusterpb.ControlState{
		KeysInForce: true, AccessVersion: version, Namespaces: []*clusterpb.Namespace{
			{Name: "old", State: clusterpb.NamespaceState_NAMESPACE_STATE_DELETING}, {Name: "shop", CreatedMs: 5},
		},
		ApiKeys: []*clusterpb.ApiKey{{
			Id: id, Name: "ci", Quotas: &clusterpb.Quotas{CallsPerSecond: 2},
			Grants:  []*clusterpb.KeyGrant{{Role: clusterpb.KeyRole_KEY_ROLE_READ, Namespace: "*"}},
			Secrets: []*clusterpb.KeySecret{{Hash: control.HashToken(id)}},
		}},
	}
}

// TestRosterIsUnknownUntilTheNodeHasCaughtUp follows a node without a file: it knows no keys before the log has brought
// its registration for this start back. Then it writes the file, by which its next start goes.
func TestRosterIsUnknownUntilTheNodeHasCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, here, dir := group(t), start(boot), t.TempDir()
		here.Set(g)
		n := New(alone(Config{Dir: dir, Control: here}))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		running.Go(func() { n.Run(ctx) })
		for state, changed := g.Watch(); state.ClusterId == ""; state, changed = g.Watch() {
			<-changed
		}
		register := func(number uint64) {
			t.Helper()
			assert.NoError(t, g.Register(t.Context(), &clusterpb.Node{Id: "a", CommandVersion: control.Version, Boot: number}))
		}
		register(boot - 1)
		if n.KeysVersion() != 0 || len(n.Namespaces()) != 1 {
			t.Error("the keys are known before this start is registered")
		}
		register(boot)
		if err := n.Await(t.Context(), 0); err != nil || n.KeysVersion() != 1 || n.KeysInForce() {
			t.Errorf("registered: %v, version %d", err, n.KeysVersion())
		}
		if err := n.Enforce(t.Context()); err != nil || !n.KeysInForce() || n.KeysVersion() != 2 {
			t.Errorf("in force: %v, version %d", err, n.KeysVersion())
		}
		cancel()
		running.Wait()
		next := New(alone(Config{Dir: dir, Control: start(boot + 1)}))
		if next.KeysVersion() != 2 || !next.KeysInForce() {
			t.Errorf("the next start knows version %d", next.KeysVersion())
		}
		elsewhere := alone(Config{Dir: dir, Control: start(boot + 1)})
		elsewhere.Identity = empty("d")
		assert.Equal(t, New(elsewhere).KeysVersion(), 0, "a node of another cluster goes by the file")
	})
}

// TestFile checks that no damage passes as a roster.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), fileName)
	if got, err := read(path, "c"); got != nil || err != nil {
		t.Errorf("no file: %v, %v", got, err)
	}
	want := withKey("k", 7)
	assert.NoError(t, write(path, "c", want))
	if got, err := read(path, "c"); err != nil || !proto.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, other := range []string{"d", ""} {
		if got, err := read(path, other); got != nil || err != nil {
			t.Errorf("cluster %q: %v, %v", other, got, err)
		}
	}
	whole, err := os.ReadFile(path)
	assert.NoError(t, err)
	for i := range whole {
		bad := slices.Clone(whole)
		bad[i] ^= 1
		for _, data := range [][]byte{bad, whole[:i]} {
			assert.NoError(t, os.WriteFile(path, data, 0o600))
			if got, err := read(path, "c"); err == nil {
				t.Fatalf("byte %d of %d is wrong, and it reads %v", i, len(whole), got)
			}
		}
	}
}

func TestNamespaceLookups(t *testing.T) {
	n := New(alone(Config{Dir: t.TempDir()}))
	if got, exists := n.Namespace(""); !exists || got.Name != "default" {
		t.Errorf("before anything is known: %+v", got)
	}
	n.roster.Store(newRoster(withKey("k", 1), nil))
	var names []string
	for _, ns := range n.Namespaces() {
		names = append(names, ns.Name)
	}
	if fmt.Sprint(names) != "[default old shop]" || !n.NamespaceActive("shop") || n.NamespaceActive("old") || n.NamespaceActive("none") ||
		!n.NamespaceActive("default") {
		t.Errorf("namespaces %v", names)
	}
	if limits := n.KeyLimits("k"); limits.CallsPerSecond != 2 || n.KeyLimits("none").CallsPerSecond != 0 {
		t.Errorf("limits %+v", limits)
	}
	schedule := &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{}}
	var field *task.FieldError
	for name, refused := range map[string]func(error) bool{
		"":        func(err error) bool { return err == nil },
		"default": func(err error) bool { return err == nil },
		"shop":    func(err error) bool { return err == nil },
		"old":     func(err error) bool { return errors.As(err, &field) },
		"none":    func(err error) bool { return errors.Is(err, task.ErrNotProposed) },
	} {
		if err := n.Admit(&fsmpb.Command{Namespace: name, Id: "t", Op: schedule}); !refused(err) {
			t.Errorf("work in %q: %v", name, err)
		}
		erase := &fsmpb.Command{Namespace: name, Id: "t", Op: &fsmpb.Command_Erase{Erase: &fsmpb.Erase{}}}
		assert.Equal(t, n.Admit(erase), nil, "an end of work in %q", name)
	}
}

// ledger is a leader, node a, that records reports.
type ledger struct {
	reports []*clusterpb.UseKeys
	fails   atomic.Bool
	version uint64 // of its answers

	key     *clusterpb.ApiKey // of its answers
	missing bool              // its answers say that the subject did not exist
}

func (l *ledger) Change(
	_ context.Context, _ string, change *clusterpb.ControlChange,
) (*clusterpb.ControlChanged, error) {
	if l.fails.Load() {
		return nil, errors.New("broken")
	}
	l.reports = append(l.reports, change.Entry.GetUseKeys())
	return &clusterpb.ControlChanged{AccessVersion: l.version, Existed: !l.missing, Key: l.key}, nil
}

func (*ledger) Await(context.Context, string, *clusterpb.AwaitRequest) error { return nil }

func (*ledger) Alive(string) bool { return true }

// led returns the replica of a node b whose leader is the ledger.
func led(t *testing.T, l *ledger) *control.Replica {
	t.Helper()
	g := group(t)
	for state, changed := g.Watch(); state.ClusterId == ""; state, changed = g.Watch() {
		<-changed
	}
	here := control.NewReplica(control.ReplicaConfig{Node: "b", Boot: boot, Nodes: l})
	here.Set(g)
	return here
}

// TestChangesAreKnownHere checks that no call returns before its own node knows the change, and that the error says so
// if the node does not hear of it in time.
func TestChangesAreKnownHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(alone(Config{Dir: t.TempDir(), Control: led(t, &ledger{version: 5})}))
		n.learn(withKey("k", 4), false)
		revoked := make(chan error, 1)
		go func() {
			_, err := n.RemoveKey(t.Context(), "k")
			revoked <- err
		}()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		select {
		case err := <-revoked:
			t.Errorf("revoked before the node knew: %v", err)
		default:
		}
		n.learn(&clusterpb.ControlState{KeysInForce: true, AccessVersion: 5}, false)
		assert.Equal(t, <-revoked, nil)
		if _, exists := n.Key("k"); exists {
			t.Error("the key is there")
		}
		n.learn(withKey("k", 4), false)
		_, err := n.RemoveKey(t.Context(), "k")
		assert.ErrorIs(t, err, task.ErrUnknown, "a change that the node does not hear of")
	})
}

// TestRotatedKeyThatTheNodeDidNotKnow checks that a rotation counts as made when the answer has the key. After a lost
// answer, the answer to the repeat says only whether the asking node knew the key before.
func TestRotatedKeyThatTheNodeDidNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader := &ledger{key: withKey("k", 0).ApiKeys[0], missing: true}
		n := New(alone(Config{Dir: t.TempDir(), Control: led(t, leader)}))
		n.learn(&clusterpb.ControlState{KeysInForce: true}, false)
		text, rotated, existed, err := n.RotateKey(t.Context(), "k", time.Hour)
		if err != nil || !existed || text == "" || rotated.ID != "k" {
			t.Errorf("rotated %+v: %v, %v", rotated, existed, err)
		}
		leader.key = nil
		if _, _, existed, err := n.RotateKey(t.Context(), "none", time.Hour); err != nil || existed {
			t.Errorf("a key that is not there: %v, %v", existed, err)
		}
	})
}

// TestUsesAreReportedOnceAnHour uses a key without a pause, and counts the reports.
func TestUsesAreReportedOnceAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader := new(ledger)
		leader.fails.Store(true)
		n := New(alone(Config{Dir: t.TempDir(), Control: led(t, leader)}))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		running.Go(func() { n.report(ctx) })

		state := withKey("k", 1)
		n.roster.Store(newRoster(state, nil))
		for range 125 {
			n.KeyUsed("k")
			n.KeyUsed("none")
			time.Sleep(time.Minute)
			synctest.Wait()
			if leader.fails.Load() { // the first report
				leader.fails.Store(false)
				continue
			}
			if last := len(leader.reports) - 1; last >= 0 { // what the leader knows comes back
				state = proto.CloneOf(state)
				state.AccessVersion++
				state.ApiKeys[0].UsedMs = leader.reports[last].HourMs
				n.roster.Store(newRoster(state, n.roster.Load()))
			}
		}
		assert.MustEqual(t, len(leader.reports), 3, "reports in three hours")
		for i, r := range leader.reports {
			if fmt.Sprint(r.Ids) != "[k]" || i > 0 && r.HourMs != leader.reports[i-1].HourMs+3_600_000 {
				t.Errorf("report %d: %v", i, r)
			}
		}
		if used := n.Keys()[0].LastUsed; used.Minute() != 0 || time.Since(used) > 2*time.Hour {
			t.Errorf("last used at %v", used)
		}
	})
}

// TestUsesOutliveARoster checks that a change of keys before a report forgets no use.
func TestUsesOutliveARoster(t *testing.T) {
	n := New(alone(Config{Dir: t.TempDir()}))
	n.roster.Store(newRoster(withKey("k", 1), nil))
	n.KeyUsed("k")
	n.roster.Store(newRoster(withKey("k", 2), n.roster.Load()))
	fresh := n.roster.Load().fresh()
	assert.Equal(t, len(fresh), 1, "uses to report: %v", fresh)
}

// TestNoSecretInTheFile checks that the file has the hashes of keys, and not the keys.
func TestNoSecretInTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, here, dir := group(t), start(boot), t.TempDir()
		here.Set(g)
		var log strings.Builder
		n := New(alone(Config{Dir: dir, Control: here, Logger: slog.New(slog.NewTextHandler(&log, nil))}))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { n.Run(ctx) })
		for state, changed := g.Watch(); state.ClusterId == ""; state, changed = g.Watch() {
			<-changed
		}
		assert.NoError(t, g.Register(t.Context(), &clusterpb.Node{Id: "a", CommandVersion: control.Version, Boot: boot}))
		spec := KeySpec{Name: "ci", Grants: []access.Grant{{Role: access.Read, Namespace: access.AllNamespaces}}}
		text, made, err := n.NewKey(t.Context(), spec)
		assert.NoError(t, err)
		cancel()
		running.Wait()
		data, err := os.ReadFile(filepath.Join(dir, fileName))
		assert.NoError(t, err)
		assert.Contains(t, string(data), made.ID, "the file does not know the key")
		secret := text[len("bfy_")+10+1:]
		if strings.Contains(string(data), secret) || strings.Contains(log.String(), secret) || strings.Contains(fmt.Sprintf("%+v", g.State()), secret) {
			t.Error("the file, the log or the state has the secret")
		}
	})
}
