package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/belfryhq/belfry/history/historypb"
	"github.com/belfryhq/belfry/history/internal/segment"
	"github.com/belfryhq/belfry/internal/assert"
)

var errFull = errors.New("no space left on device")

// world is a store with a disk that can be full.
type world struct {
	testing.TB
	store *Store
	cfg   Config
	full  atomic.Bool
}

type fullFile struct {
	segment.File
	full *atomic.Bool
}

func (f fullFile) WriteAt(p []byte, at int64) (int, error) {
	if !f.full.Load() {
		return f.File.WriteAt(p, at)
	}
	n, err := f.File.WriteAt(p[:len(p)/2], at)
	return n, errors.Join(err, errFull)
}

func newWorld(t testing.TB, change func(*Config)) *world {
	w := &world{TB: t}
	w.cfg = Config{
		Dir: filepath.Join(t.TempDir(), "history"), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		open: func(path string) (segment.File, error) {
			f, err := openFile(path)
			return fullFile{f, &w.full}, err
		},
	}
	if change != nil {
		change(&w.cfg)
	}
	w.open()
	t.Cleanup(func() {
		if err := w.store.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Errorf("close: %v", err)
		}
	})
	return w
}

func (w *world) open() {
	w.Helper()
	store, err := Open(w.cfg)
	assert.NoError(w, err)
	w.store = store
}

// restart closes the store and opens it again.
func (w *world) restart() {
	w.Helper()
	assert.NoError(w, w.store.Close())
	w.open()
}

// crash opens a store on a copy of the files that the store has now.
func (w *world) crash() *world {
	w.Helper()
	c := &world{TB: w.TB, cfg: w.cfg}
	c.cfg.Dir = filepath.Join(w.TempDir(), "copy")
	assert.NoError(w, os.CopyFS(c.cfg.Dir, os.DirFS(w.cfg.Dir)))
	c.open()
	w.Cleanup(func() { _ = c.store.Close() })
	return c
}

func (w *world) shard(id uint32) *Shard {
	w.Helper()
	sh, err := w.store.Shard(id)
	assert.NoError(w, err)
	return sh
}

func (w *world) sync(sh *Shard, index uint64) {
	w.Helper()
	assert.NoError(w, sh.Sync(index))
}

// entry returns the events of one entry, at index seconds: one for each namespace.
func entry(index uint64, namespaces ...string) []*Event {
	var events []*Event
	for _, namespace := range namespaces {
		events = append(events, &Event{
			AtMs: int64(index) * 1000, Type: historypb.Type_TYPE_FIRED, Namespace: namespace,
			Task: fmt.Sprintf("task-%d", index/3), Queue: "mail", Attempt: 1, DueMs: int64(index)*1000 - 7, LatenessMs: 7,
			Labels: []*historypb.Label{{Name: "tenant", Value: fmt.Sprint(index % 2)}}, WebhookId: fmt.Sprintf("wh-%d", index*7919),
			Node: "node-1", Status: 200,
		})
	}
	return events
}

func appendAll(sh *Shard, from, to uint64, namespaces ...string) {
	for i := from; i <= to; i++ {
		sh.Append(i, slices.Values(entry(i, namespaces...)))
	}
}

// read returns all events of a namespace after a position, with the gaps.
func (w *world) read(shard uint32, namespace string, after Position, f Filter) (events []*Event, gaps []Gap) {
	w.Helper()
	for {
		page, err := w.store.Read(context.Background(), shard, namespace, after, f, 100)
		assert.NoError(w, err, "read after %v", after)
		events, gaps = append(events, page.Events...), append(gaps, page.Gaps...)
		if page.Next == after {
			return events, gaps
		}
		after = page.Next
	}
}

func indexes(events []*Event) (indexes []uint64) {
	for _, e := range events {
		indexes = append(indexes, e.Index)
	}
	return indexes
}

func (w *world) wantIndexes(shard uint32, namespace string, from, to uint64) {
	w.Helper()
	var want []uint64
	for i := from; i <= to; i++ {
		want = append(want, i)
	}
	events, gaps := w.read(shard, namespace, Position{Index: from - 1, Number: endOf(0).Number}, Filter{})
	if got := indexes(events); !slices.Equal(got, want) {
		w.Fatalf("%s has events of %d entries, first and last %v; want %d to %d",
			namespace, len(got), ends(got), from, to)
	}
	if len(gaps) > 0 {
		w.Fatalf("gaps %v, want none", gaps)
	}
}

func ends(all []uint64) []uint64 {
	if len(all) < 2 {
		return all
	}
	return []uint64{all[0], all[len(all)-1]}
}

func wantSame(t testing.TB, got, want []*Event) {
	t.Helper()
	assert.MustEqual(t, cmp.Diff(want, got, protocmp.Transform()), "", "events differ (-want +got)")
}

// files returns the paths of all segments of the store.
func (w *world) files() []string {
	w.Helper()
	paths, err := filepath.Glob(filepath.Join(w.cfg.Dir, "*", "*"+suffix))
	assert.NoError(w, err)
	return paths
}

func wallClock(seconds *atomic.Int64) func() time.Time {
	return func() time.Time { return time.Unix(seconds.Load(), 0) }
}
