package backups

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/backup"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/internal/assert"
)

// world is a cluster whose nodes share a record and a folder.
type world struct {
	t   *testing.T
	dir backup.Folder
	mu  sync.Mutex
	// record is the record of the control group. Nodes see it after lag.
	record *clusterpb.Backups
	begun  []string // nodes, in the order of their backups
}

const lag = 200 * time.Millisecond

// node is one node. Its fields may be changed between backups.
type node struct {
	*world
	id     string
	known  *clusterpb.Backups
	looked func()                          // called with the lock after each look at the record; nil: none
	cut    bool                            // it reaches no other node
	backup func(ctx context.Context) error // in place of a backup at once; nil: none
	since  time.Time                       // of its start
	stop   func()                          // ends the schedule, and waits
	done   chan struct{}
}

func newWorld(t *testing.T) *world { return &world{t: t, dir: backup.Folder(t.TempDir())} }

func (w *world) add(id string) *node { return &node{world: w, id: id, done: make(chan struct{})} }

func (n *node) start() {
	ctx, cancel := context.WithCancel(n.t.Context())
	n.stop = func() { cancel(); <-n.done }
	n.since = time.Now()
	s := New(Config{
		Cluster: n, Depot: n.dir, Every: 6 * time.Hour, Keep: 3, Clock: time.Now,
		Logger: slog.New(slog.NewTextHandler(n.t.Output(), nil)),
	})
	go n.spread(ctx)
	go func() {
		defer close(n.done)
		s.Run(ctx)
	}()
}

func (n *node) ID() string        { return n.id }
func (n *node) ClusterID() string { return "cluster" }

// Ready returns an error for the first ten seconds.
func (n *node) Ready() error {
	if time.Since(n.since) < 10*time.Second {
		return errors.New("the shards have no place yet")
	}
	return nil
}

func (n *node) Backups() *clusterpb.Backups {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.known
	if n.looked != nil {
		n.looked()
	}
	return known
}

func (n *node) SetBackups(ctx context.Context, b *clusterpb.Backups) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut || ctx.Err() != nil {
		return false, errors.New("no leader")
	}
	if b.Revision != n.record.GetRevision() {
		return false, nil
	}
	next := clone(b)
	next.Revision++
	n.record = next
	return true, nil
}

// spread lets the node know the record, until ctx ends.
func (n *node) spread(ctx context.Context) {
	for ticker := time.NewTicker(lag); ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			ticker.Stop()
			return
		}
		n.mu.Lock()
		if !n.cut {
			n.known = n.record
		}
		n.mu.Unlock()
	}
}

func (n *node) Backup(ctx context.Context, w io.Writer, _ int64) (cluster.BackupSummary, error) {
	n.mu.Lock()
	n.begun = append(n.begun, n.id)
	wait := n.backup
	n.mu.Unlock()
	if wait != nil {
		if err := wait(ctx); err != nil {
			return cluster.BackupSummary{}, err
		}
	}
	out := backup.NewWriter(w)
	err := errors.Join(out.Header(&clusterpb.BackupHeader{ClusterId: "cluster"}), out.Close())
	return cluster.BackupSummary{SHA256: out.Sum()}, err
}

func (n *node) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

func (w *world) made() (begun []string, record *clusterpb.Backups) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun, clone(w.record)
}

// run plays a scene with three nodes. Each of them makes its backups by backup, if not nil.
func run(t *testing.T, backup func(n *node, ctx context.Context) error, scene func(w *world, nodes []*node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var nodes []*node
		for _, id := range []string{"a", "b", "c"} {
			n := w.add(id)
			if backup != nil {
				n.backup = func(ctx context.Context) error { return backup(n, ctx) }
			}
			nodes = append(nodes, n)
		}
		for _, n := range nodes {
			n.start()
		}
		scene(w, nodes)
		for _, n := range nodes {
			n.stop()
		}
	})
}

func TestOneNodeMakesEachBackup(t *testing.T) {
	run(t, nil, func(w *world, _ []*node) {
		time.Sleep(24*time.Hour + time.Minute)
		begun, record := w.made()
		if len(begun) != 5 || record.Running != nil || record.LastFailed != nil || record.LastKept.GetBytes() == 0 {
			t.Errorf("%v, %v", begun, record)
		}
		names, err := w.dir.List(t.Context(), "")
		if err != nil || len(names) != 3 {
			t.Errorf("%v, %v", names, err)
		}
		if age := time.Since(time.UnixMilli(record.LastKept.BegunMs)); age > 2*time.Minute {
			t.Errorf("the last backup is of %v ago", age)
		}
	})
}

// Another node begins the due backup right after this node has looked at the record.
func TestBackupIsNotBegunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.record = &clusterpb.Backups{Revision: 1}
		n := w.add("a")
		n.looked = func() {
			if n.Ready() == nil && n.record.Running == nil {
				n.record = begin(n.record, "b", time.Now())
				n.record.Revision++
				n.known = n.record
			}
		}
		n.start()
		time.Sleep(20 * time.Second)
		if begun, record := w.made(); len(begun) != 0 || record.Running.GetNode() != "b" || record.LastFailed != nil {
			t.Errorf("%v, %v", begun, record)
		}
		n.stop()
	})
}

func TestFailedBackupIsTriedAgain(t *testing.T) {
	fails := func(*node, context.Context) error { return errors.New("shard 3 has no leader") }
	run(t, fails, func(w *world, nodes []*node) {
		if begun, _ := w.made(); len(begun) != 0 {
			t.Errorf("%v began before it was ready", begun)
		}
		time.Sleep(12 * time.Minute)
		begun, record := w.made()
		if len(begun) != 3 || record.LastKept != nil || !strings.Contains(record.LastFailed.GetError(), "shard 3") {
			t.Errorf("%v, %v", begun, record)
		}
		for _, n := range nodes {
			n.set(func() { n.backup = nil })
		}
		time.Sleep(6 * time.Minute)
		if begun, record := w.made(); len(begun) != 4 || record.LastKept == nil || record.LastFailed == nil {
			t.Errorf("%v, %v", begun, record)
		}
		time.Sleep(5 * time.Hour)
		if begun, _ := w.made(); len(begun) != 4 {
			t.Errorf("too many: %v", begun)
		}
	})
}

// A node that is cut off in the middle of a backup gives it up, and another node makes one. The files of the two do not
// meet.
func TestLostNodeIsReplaced(t *testing.T) {
	gaveUp := ""
	isCutOff := func(n *node, ctx context.Context) error {
		n.set(func() { n.cut = true })
		<-ctx.Done()
		gaveUp = n.id
		return context.Cause(ctx)
	}
	run(t, isCutOff, func(w *world, nodes []*node) {
		time.Sleep(20 * time.Second)
		begun, _ := w.made()
		assert.MustEqual(t, len(begun), 1, "%v", begun)
		for _, n := range nodes {
			n.set(func() {
				if n.id != begun[0] {
					n.backup = nil
				}
			})
		}
		time.Sleep(100 * time.Second)
		if begun, record := w.made(); len(begun) != 1 || record.Running == nil {
			t.Errorf("two minutes are not over: %v, %v", begun, record)
		}
		assert.Equal(t, gaveUp, begun[0], "gave up")
		time.Sleep(time.Minute + 20*time.Second)
		again, record := w.made()
		if len(again) != 2 || again[1] == begun[0] || record.Running != nil || record.LastKept.GetNode() != again[1] ||
			record.LastFailed.GetNode() != begun[0] || record.LastFailed.GetError() == "" {
			t.Errorf("%v, %v", again, record)
		}
	})
}

// A long backup is confirmed, and so not repeated.
func TestLongBackup(t *testing.T) {
	takesAnHour := func(*node, context.Context) error { time.Sleep(time.Hour); return nil }
	run(t, takesAnHour, func(w *world, _ []*node) {
		time.Sleep(61 * time.Minute)
		if begun, record := w.made(); len(begun) != 1 || record.LastKept == nil || record.LastFailed != nil {
			t.Errorf("%v, %v", begun, record)
		}
	})
}

func TestStoppedNodeSaysSo(t *testing.T) {
	hangs := func(_ *node, ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	run(t, hangs, func(w *world, nodes []*node) {
		time.Sleep(time.Minute)
		begun, _ := w.made()
		for _, n := range nodes {
			if len(begun) == 1 && n.id == begun[0] {
				n.stop()
			}
			n.set(func() { n.backup = nil })
		}
		_, record := w.made()
		if record.Running != nil || !strings.Contains(record.LastFailed.GetError(), "stopped") {
			t.Errorf("%v", record)
		}
		time.Sleep(7 * time.Minute)
		if _, record := w.made(); record.LastKept == nil {
			t.Errorf("%v", record)
		}
		if left, err := os.ReadDir(string(w.dir)); err != nil || len(left) != 1 {
			t.Errorf("%v, %v", left, err)
		}
	})
}

// A node that was killed in the middle of a backup begins again when it is back, without waiting.
func TestKilledNodeBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.record = begin(&clusterpb.Backups{Revision: 1}, "a", time.Now())
		n := w.add("a")
		n.start()
		time.Sleep(20 * time.Second)
		_, record := w.made()
		if record.LastKept == nil || record.LastFailed == nil {
			t.Errorf("%v", record)
		}
		n.stop()
	})
}
