package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// noisy returns the events of one entry, with answers that compress badly.
func noisy(index uint64, random *rand.Rand, namespaces ...string) []*Event {
	events := entry(index, namespaces...)
	for _, e := range events {
		e.Answer = fmt.Sprintf("%x%x%x%x", random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64())
	}
	return events
}

func appendNoisy(sh *Shard, from, to uint64, namespaces ...string) {
	random := rand.New(rand.NewPCG(from, to))
	for i := from; i <= to; i++ {
		sh.Append(i, slices.Values(noisy(i, random, namespaces...)))
	}
}

func (w *world) usage(namespace string) int64 {
	usage := map[string]int64{}
	for _, sh := range w.store.open() {
		sh.addUsage(usage)
	}
	return usage[namespace]
}

// wantGone reads a namespace from the start, and wants all entries after a floor up to the last one.
func (w *world) wantGone(shard uint32, namespace string, last uint64) *GoneError {
	w.Helper()
	_, err := w.store.Read(context.Background(), shard, namespace, Position{}, Filter{}, 1)
	var gone *GoneError
	if !errors.As(err, &gone) || !errors.Is(err, ErrGone) {
		w.Fatalf("error %v, want a GoneError", err)
	}
	assert.NoError(w, w.store.Wait(context.Background(), shard, namespace, Position{}), "Wait before the floor")
	w.wantIndexes(shard, namespace, gone.After.Index+1, last)
	return gone
}

func TestBytesLimitOneNamespace(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Bytes = 1 << 20; c.Buffer = 64 << 20 })
	one, two := w.shard(1), w.shard(2)
	for i := uint64(1); i < 30000; i += 1000 {
		appendNoisy(one, i, i+999, "big")
		appendNoisy(one, i+999, i+999, "small")
		appendNoisy(two, i, i+999, "big")
		w.sync(one, i+999)
		w.sync(two, i+999)
	}
	if used := w.usage("big"); used <= 1<<20 {
		t.Logf("%d bytes before the limit", used)
	}
	w.store.limit()
	if used := w.usage("big"); used > 1<<20 || used < 3<<18 {
		t.Fatalf("%d bytes of the large namespace, want up to 1 MiB", used)
	}
	a, b := w.wantGone(1, "big", 30000), w.wantGone(2, "big", 30000)
	if d := a.Since.Sub(b.Since).Abs(); d > 2000*time.Second {
		t.Fatalf("the shards keep events since %v and %v, want about the same", a.Since, b.Since)
	}
	checkFiles(t, w, 3<<20)
	w.restart()
	w.shard(1)
	again := w.wantGone(1, "big", 30000)
	assert.MustEqual(t, *again, *a, "after a restart %v, before %v", again, a)
	story, err := w.store.Task(t.Context(), "big", "task-3", 5)
	if err != nil || len(story.Events) > 0 || !story.Since.Equal(a.Since) {
		t.Fatalf("%d events of an old task, since %v, error %v", len(story.Events), story.Since, err)
	}
}

// checkFiles wants the bytes on disk to be those of the metric, and at most a limit.
func checkFiles(t *testing.T, w *world, limit int64) {
	t.Helper()
	var bytes int64
	for _, path := range w.files() {
		bytes += fileSize(t, path)
	}
	if sum := w.store.sum((*Shard).size); bytes != sum || bytes > limit {
		t.Fatalf("%d bytes in files, %d in the metric, limit %d", bytes, sum, limit)
	}
}

func TestSmallNamespaceOutlivesALargeOne(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Bytes = 1 << 20; c.Buffer = 64 << 20 })
	sh := w.shard(1)
	var kept []uint64
	for i := uint64(1); i < 60000; i += 2000 {
		appendNoisy(sh, i, i+1998, "big")
		appendNoisy(sh, i+1999, i+1999, "big", "small")
		kept = append(kept, i+1999)
		w.sync(sh, i+1999)
		w.store.limit()
	}
	w.restart()
	w.shard(1)
	events, gaps := w.read(1, "small", Position{}, Filter{})
	if got := indexes(events); !slices.Equal(got, kept) || len(gaps) > 0 {
		t.Fatalf("small has entries %v, gaps %v; want %v", got, gaps, kept)
	}
	checkFiles(t, w, 3<<20)
}

func TestAgeRemovesOldSegments(t *testing.T) {
	var now atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) {
			c.Age = 1000 * time.Second
			c.Clock = wallClock(&now)
		})
		sh := w.shard(1)
		appendAll(sh, 1, 2000, "a")
		w.sync(sh, 2000)
		now.Store(2900)
		tickKeeper()
		w.wantIndexes(1, "a", 1, 2000)
		now.Store(3001)
		tickKeeper()
		gone := w.wantGone(1, "a", 2000)
		if gone.After != (Position{Index: 2000}) || gone.Since.Unix() != 2000 {
			t.Fatalf("gone: %v, want up to entry 2000", gone)
		}
		appendAll(sh, 2001, 2010, "a")
		w.wantIndexes(1, "a", 2001, 2010)
		w.restart()
		appendAll(w.shard(1), 1990, 2010, "a")
		w.wantIndexes(1, "a", 2001, 2010)
		files := w.files()
		assert.MustEqual(t, len(files), 1, "files %v, want one", files)
	})
}

func tickKeeper() {
	<-time.After(keepPeriod + time.Millisecond)
	synctest.Wait()
}

func TestTotalLimitsTheStore(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Bytes = 32 * minSegment; c.Total = 1 << 20; c.Buffer = 64 << 20 })
	for i := uint64(1); i <= 20; i++ {
		for shard := uint32(1); shard <= 3; shard++ {
			appendNoisy(w.shard(shard), 1000*i-999, 1000*i, "a")
			w.sync(w.shard(shard), 1000*i)
		}
		w.store.limit()
		checkFiles(t, w, 1<<20+6*minSegment)
	}
	if gone := w.wantGone(1, "a", 20000); gone.After.Index < 5000 {
		t.Fatalf("gone up to %v only", gone.After)
	}
}

func TestEraseLeavesNoByteOfTheNamespace(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Bytes = 4 << 20; c.Buffer = 64 << 20 })
	sh := w.shard(1)
	for i := uint64(1); i < 20000; i += 1000 {
		appendNoisy(sh, i, i+999, "kept", "erased-namespace")
		w.sync(sh, i+999)
	}
	appendNoisy(sh, 20001, 20010, "kept", "erased-namespace")
	if len(w.files()) < 3 {
		t.Fatalf("%d segments, want some sealed ones", len(w.files()))
	}
	assert.NoError(t, w.store.Erase("erased-namespace"))
	assert.NoError(t, sh.flush(all))
	used := w.usage("kept")
	w.restart()
	w.shard(1)
	if again := w.usage("kept"); again != used {
		t.Fatalf("%d bytes of the other namespace, %d after a restart", used, again)
	}
	w.wantIndexes(1, "kept", 1, 20010)
	if events, _ := w.read(1, "erased-namespace", Position{}, Filter{}); len(events) > 0 {
		t.Fatalf("%d events of the erased namespace are left", len(events))
	}
	appendNoisy(w.shard(1), 19000, 20010, "erased-namespace")
	if used := w.usage("erased-namespace"); used > 0 {
		t.Fatalf("entries that are applied again bring %d bytes back", used)
	}
	noText(t, w, "erased-namespace")
}

// noText wants no file with a text. Bodies are compressed, but summaries and marks are not.
func noText(t *testing.T, w *world, text string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(w.cfg.Dir, "*", "*"))
	assert.NoError(t, err)
	for _, path := range all {
		data, err := os.ReadFile(path)
		assert.NoError(t, err)
		if bytes.Contains(data, []byte(text)) || strings.HasSuffix(path, draft) {
			t.Errorf("%s is left, or has %q", path, text)
		}
	}
}

// A crash between the two steps of a rewriting leaves the old segments beside the new one.
func TestCrashDuringRewritingLeavesNoEventTwice(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Bytes = 2 << 20; c.Buffer = 64 << 20 })
	sh := w.shard(1)
	for i := uint64(1); i < 10000; i += 1000 {
		appendNoisy(sh, i, i+999, "kept", "erased")
		w.sync(sh, i+999)
	}
	before := w.crash()
	assert.NoError(t, before.store.Close())
	assert.NoError(t, w.store.Erase("erased"))
	for _, path := range w.files() {
		data, err := os.ReadFile(path)
		assert.NoError(t, err)
		assert.NoError(t, os.WriteFile(filepath.Join(before.cfg.Dir, "1", filepath.Base(path)), data, 0o600))
	}
	before.open()
	before.shard(1)
	before.wantIndexes(1, "kept", 1, 10000)
	if files := len(before.files()); files != len(w.files()) {
		t.Fatalf("%d files, want %d", files, len(w.files()))
	}
}

func TestReadersSeeAllEventsDuringWritesAndRewriting(t *testing.T) {
	const last = 20000
	w := newWorld(t, func(c *Config) { c.Bytes = 4 << 20; c.Buffer = 64 << 20 })
	sh := w.shard(1)
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() { follow(t, w.store, last) })
	}
	readers.Go(func() {
		for i := range 20 {
			_, err := w.store.Task(t.Context(), "a", fmt.Sprint("task-", 100*i), 10)
			assert.Equal(t, err, nil, "Task")
		}
	})
	for i := uint64(1); i < last; i += 500 {
		appendNoisy(sh, i, i+499, "a", "b", fmt.Sprint("erased-", i/2000))
		if i%2000 == 1501 {
			w.sync(sh, i+499)
			assert.NoError(t, w.store.Erase(fmt.Sprint("erased-", i/2000)))
			w.store.limit()
		}
	}
	readers.Wait()
}

// follow reads a namespace until its last entry, and wants each entry once.
func follow(t *testing.T, s *Store, last uint64) {
	at, next := Position{}, uint64(1)
	for next <= last {
		page, err := s.Read(t.Context(), 1, "a", at, Filter{}, 300)
		if err == nil && page.Next == at {
			err = s.Wait(t.Context(), 1, "a", at)
		}
		if err != nil || len(page.Gaps) > 0 {
			t.Errorf("after %v: gaps %v, error %v", at, page.Gaps, err)
			return
		}
		for _, e := range page.Events {
			if e.Index != next {
				t.Errorf("entry %d, want %d", e.Index, next)
				return
			}
			next++
		}
		at = page.Next
	}
}
