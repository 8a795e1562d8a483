package recovery

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/cluster/internal/membership"
	"github.com/belfryhq/belfry/cluster/internal/witness"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup/logstore"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
	"github.com/belfryhq/belfry/shard"
)

type noDelivery struct{}

func (noDelivery) Deliver(context.Context, task.Attempt) task.Outcome { return task.Outcome{} }
func (noDelivery) DeliverBatch(_ context.Context, batch []task.Attempt) []task.Outcome {
	return make([]task.Outcome, len(batch))
}

const tasks = 100

// used makes the data folder of a node that has run one shard until the shard had a snapshot, and more log. The node
// runs in a bubble.
func used(t *testing.T, kind logstore.Kind) (dir string, last shard.Status) {
	t.Helper()
	dir = t.TempDir()
	synctest.Test(t, func(t *testing.T) { last = use(t, dir, kind) })
	return dir, last
}

func use(t *testing.T, dir string, kind logstore.Kind) (last shard.Status) {
	t.Helper()
	id, err := membership.OpenIdentity(dir)
	assert.NoError(t, err)
	_, transport := raft.NewInmemTransport(raft.ServerAddress(id.NodeID()))
	fatal := func(err error) { t.Error(err) }
	disk, err := shard.OpenDisk(1, raftdisk.Config{
		Dir: id.GroupDir(1), Kind: kind, Owner: &raftdisk.Owner{Node: id.NodeID(), Group: 1}, Fatal: fatal,
		Logger: slog.New(slog.DiscardHandler),
	})
	assert.NoError(t, err)
	s, err := shard.Open(shard.Config{
		ID: 1, NodeID: id.NodeID(), Replicas: []shard.Replica{{NodeID: id.NodeID()}}, Storage: disk,
		Transport: transport, Deliver: noDelivery{}, SnapshotLog: 1, Timing: shard.Fast(), Fatal: fatal,
	})
	assert.NoError(t, err)
	for i := range tasks {
		schedule(t, s, fmt.Sprint("task-", i), 10)
		if i == tasks/2 {
			awaitSnapshot(t, s, id.GroupDir(1))
		}
	}
	last = s.Status()
	table, err := witness.Open(witness.Config{Dir: dir, Node: id.NodeID(), New: true, Fatal: func(err error) { t.Error(err) }})
	assert.NoError(t, err)
	table.Follow(1, s.Position)
	assert.NoError(t, table.Close())
	assert.NoError(t, s.Close(t.Context()))
	assert.NoError(t, id.RecordOpened(1, 0))
	if _, err := VerifyFolder(t.Context(), dir, t.TempDir()); err == nil || !strings.Contains(err.Error(), "use") {
		t.Errorf("a folder that is in use: %v", err)
	}
	assert.NoError(t, id.Close())
	return last
}

func schedule(t *testing.T, s *shard.Shard, id string, times int) {
	t.Helper()
	cmd := &fsmpb.Command{Id: id, Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{
		Spec: &fsmpb.Spec{Payload: []byte(strings.Repeat(id, times))}, ReceivedAtMs: time.Now().UnixMilli(),
		FireAtMs: time.Now().Add(time.Hour).UnixMilli(),
	}}}
	for {
		err := s.Do(t.Context(), []*fsmpb.Command{cmd})[0].Err
		if err == nil {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond): // the leader is being elected
		case <-t.Context().Done():
			t.Fatal(err)
		}
	}
}

func awaitSnapshot(t *testing.T, s *shard.Shard, dir string) {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		if found, err := filepath.Glob(filepath.Join(dir, "snapshots", "*[0-9]")); err != nil || len(found) > 0 {
			return
		}
		schedule(t, s, "task-0", 10_000) // a snapshot is due when the log has grown larger than the state
		select {
		case <-time.After(20 * time.Millisecond):
		case <-late:
			t.Fatal("no snapshot")
		}
	}
}

// sums returns the checksums of all files.
func sums(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(&out, "%s %x\n", path, sha256.Sum256(data))
		return err
	})
	assert.NoError(t, err)
	return out.String()
}

func inspect(t *testing.T, dir string) Replica {
	t.Helper()
	before, temp := sums(t, dir), t.TempDir()
	report, err := VerifyFolder(t.Context(), dir, temp)
	assert.NoError(t, err)
	if after := sums(t, dir); after != before {
		t.Errorf("files were changed:\n%s\n%s", before, after)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	assert.MustEqual(t, len(report.Groups), 1, "%+v", report)
	assert.Equal(t, report.Sound(), (len(report.Groups[0].Problems) == 0), "sound: %+v", report)
	return report.Groups[0]
}

func TestSoundFolder(t *testing.T) {
	for _, kind := range []logstore.Kind{logstore.WAL, logstore.BoltDB} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			dir, last := used(t, kind)
			g := inspect(t, dir)
			if len(g.Problems) > 0 {
				t.Fatalf("%q", g.Problems)
			}
			if g.Hash != fmt.Sprintf("%016x", last.Hash) || g.Applied != last.Applied || g.Commands != last.Commands {
				t.Errorf("%+v, want %+v", g, last)
			}
			if g.Snapshot == 0 || g.Last < g.Snapshot || g.Term == 0 || g.Tasks["scheduled"] != tasks {
				t.Errorf("%+v", g)
			}
		})
	}
}

func TestDamage(t *testing.T) {
	dir, _ := used(t, logstore.WAL)
	group := filepath.Join(dir, "groups", "0001")
	for _, tt := range []struct {
		name, file string // a pattern
		harm       func([]byte) []byte
		says       string
	}{
		{"a snapshot", "snapshots/*/state.bin", flip("task-7"), "snapshot "},
		{"an entry", "log/wal/*.wal", flip("task-90"), "log: "},
		{"the votes are gone", "log/stable.db", nil, "log: "},
		{"the segments' list is gone", "log/wal/*.db", nil, "log: "},
		{"a snapshot's description", "snapshots/*/meta.json", func([]byte) []byte { return []byte("{") }, "snapshot "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "data")
			assert.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
			files, err := filepath.Glob(filepath.Join(copied, "groups", "0001", tt.file))
			if err != nil || len(files) == 0 {
				t.Fatalf("%v, %v in %s", files, err, group)
			}
			harmed := 0
			for _, file := range files {
				harmed += spoil(t, file, tt.harm)
			}
			if harmed == 0 {
				t.Fatal("nothing was harmed")
			}
			g := inspect(t, copied)
			if !slices.ContainsFunc(g.Problems, func(p string) bool { return strings.Contains(p, tt.says) }) {
				t.Errorf("%q", g.Problems)
			}
		})
	}
}

// flip returns a function that changes a byte in the last occurrence of the text.
func flip(text string) func([]byte) []byte {
	return func(data []byte) []byte {
		if i := bytes.LastIndex(data, []byte(text)); i >= 0 {
			data[i] ^= 1
		}
		return data
	}
}

func spoil(t *testing.T, file string, harm func([]byte) []byte) int {
	t.Helper()
	if harm == nil {
		assert.NoError(t, os.Remove(file))
		return 1
	}
	data, err := os.ReadFile(file)
	assert.NoError(t, err)
	bad := harm(bytes.Clone(data))
	if bytes.Equal(bad, data) {
		return 0
	}
	assert.NoError(t, os.WriteFile(file, bad, 0o600))
	return 1
}

func TestNoFolder(t *testing.T) {
	for _, dir := range []string{t.TempDir(), "/does/not/exist"} {
		if _, err := VerifyFolder(t.Context(), dir, ""); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%v", err)
		}
	}
}

// TestLostTail cuts the second half off every segment. These logs have no journal. The log alone looks like one with a
// torn last write.
func TestLostTail(t *testing.T) {
	dir, last := used(t, logstore.WAL)
	segments, err := filepath.Glob(filepath.Join(dir, "groups", "0001", "log", "wal", "*.wal"))
	if err != nil || len(segments) == 0 {
		t.Fatal(segments, err)
	}
	for _, name := range segments {
		data, err := os.ReadFile(name)
		assert.NoError(t, err)
		end := len(bytes.TrimRight(data, "\x00"))
		clear(data[end/2:])
		assert.NoError(t, os.WriteFile(name, data, 0o600))
	}
	g := inspect(t, dir)
	want := fmt.Sprintf("had applied index %d", last.Applied)
	if !slices.ContainsFunc(g.Problems, func(p string) bool { return strings.Contains(p, want) }) {
		t.Errorf("problems %q, without %q", g.Problems, want)
	}
}

// VerifyFolder finds the folder unsound if the node's witness table is damaged or missing.
func TestWholeFolder(t *testing.T) {
	dir, _ := used(t, logstore.WAL)
	table := filepath.Join(dir, witness.FileName)
	data, err := os.ReadFile(table)
	assert.NoError(t, err)
	for name, harm := range map[string]func() error{
		"sound":   func() error { return nil },
		"damaged": func() error { return os.WriteFile(table, data[:len(data)-1], 0o600) },
		"missing": func() error { return os.Remove(table) },
	} {
		assert.NoError(t, errors.Join(os.WriteFile(table, data, 0o600), harm()))
		report, err := VerifyFolder(t.Context(), dir, t.TempDir())
		if err != nil || report.Sound() != (name == "sound") || (len(report.Problems) == 0) != (name == "sound") {
			t.Errorf("%s: %v, %+v", name, err, report)
		}
	}
}

func TestRemarks(t *testing.T) {
	first, second := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	id, err := membership.OpenIdentity(first)
	assert.NoError(t, err)
	assert.NoError(t, errors.Join(id.Enter(membership.NewID()), id.Close(), os.CopyFS(second, os.DirFS(first))))
	for dir, copied := range map[string]bool{first: false, second: true} {
		report, err := VerifyFolder(t.Context(), dir, t.TempDir())
		assert.NoError(t, err)
		all := strings.Join(report.Remarks, "\n")
		if !report.Sound() || !strings.Contains(all, "only the other nodes can tell") || strings.Contains(all, "copy: the") != copied {
			t.Errorf("copied is %v: %q", copied, all)
		}
	}
}
