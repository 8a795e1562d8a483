package history

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/history/historypb"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

func TestEventsAreReadFromMemoryAndDisk(t *testing.T) {
	w := newWorld(t, nil)
	sh := w.shard(7)
	appendAll(sh, 1, 30, "a", "b")
	w.wantIndexes(7, "b", 1, 30)
	w.sync(sh, 30)
	appendAll(sh, 31, 40, "a", "b")
	w.wantIndexes(7, "b", 1, 40)
	w.restart()
	w.shard(7)
	w.wantIndexes(7, "b", 1, 40)
	events, _ := w.read(7, "a", Position{Index: 38, Number: 1}, Filter{})
	want := slices.Concat(entry(39, "a"), entry(40, "a"))
	for i, e := range want {
		e.Shard, e.Index = 7, uint64(39+i)
	}
	wantSame(t, events, want)
}

func TestRestartedShardIgnoresEntriesThatItHas(t *testing.T) {
	w := newWorld(t, nil)
	appendAll(w.shard(1), 1, 2000, "a")
	w.restart()
	appendAll(w.shard(1), 1500, 2100, "a")
	w.wantIndexes(1, "a", 1, 2100)
	w.restart()
	assert.MustEqual(t, w.shard(1).Last(), Position{Index: 2100}, "last")
}

func TestFilter(t *testing.T) {
	w := newWorld(t, nil)
	sh := w.shard(1)
	appendAll(sh, 1, 20, "a")
	sh.Append(21, slices.Values([]*Event{{Namespace: "a", Task: "other", Queue: "sms", Type: historypb.Type_TYPE_DEAD}}))
	for name, c := range map[string]struct {
		filter Filter
		want   int
	}{
		"all":    {Filter{}, 21},
		"queue":  {Filter{Queue: "sms"}, 1},
		"types":  {Filter{Types: []historypb.Type{historypb.Type_TYPE_DEAD, historypb.Type_TYPE_MOVED}}, 1},
		"labels": {Filter{Labels: []*historypb.Label{{Name: "tenant", Value: "1"}}}, 10},
		"prefix": {Filter{Prefix: "task-1"}, 3},
		"two":    {Filter{Prefix: "task-1", Labels: []*historypb.Label{{Name: "tenant", Value: "1"}}}, 2},
		"none":   {Filter{Queue: "sms", Prefix: "task"}, 0},
	} {
		if events, _ := w.read(1, "a", Position{}, c.filter); len(events) != c.want {
			t.Errorf("%s: %d events, want %d", name, len(events), c.want)
		}
	}
}

func TestTaskIsFoundInAllShards(t *testing.T) {
	w := newWorld(t, nil)
	appendAll(w.shard(1), 1, 3000, "a", "b")
	appendAll(w.shard(2), 2000, 5000, "a", "b")
	w.sync(w.shard(1), 3000)
	story, err := w.store.Task(context.Background(), "b", "task-700", 10)
	assert.NoError(t, err)
	if got := indexes(story.Events); !slices.Equal(got, []uint64{2100, 2100, 2101, 2101, 2102, 2102}) || story.More {
		t.Fatalf("events of entries %v, more: %v", got, story.More)
	}
	story, err = w.store.Task(context.Background(), "b", "task-700", 4)
	if err != nil || len(story.Events) != 4 || !story.More || story.Events[0].Shard != 1 || !story.Since.IsZero() {
		t.Fatalf("%d events, more: %v, since %v, error %v", len(story.Events), story.More, story.Since, err)
	}
}

func TestGapIsReportedOnce(t *testing.T) {
	w := newWorld(t, nil)
	sh := w.shard(1)
	appendAll(sh, 1, 3, "a")
	sh.Gap(1, 9)
	sh.Gap(1, 8)
	appendAll(sh, 8, 12, "a")
	want := []Gap{{Position{Index: 3, Number: 1}, endOf(9)}}
	for range 3 {
		events, gaps := w.read(1, "a", Position{}, Filter{})
		if got := indexes(events); !slices.Equal(got, []uint64{1, 2, 3, 10, 11, 12}) || !slices.Equal(gaps, want) {
			t.Fatalf("entries %v, gaps %v; want a gap %v", got, gaps, want)
		}
		w.restart()
		w.shard(1).Gap(1, 9)
	}
}

func TestSyncedEntriesWithoutEventsAreNoGap(t *testing.T) {
	w := newWorld(t, nil)
	sh := w.shard(1)
	appendAll(sh, 1, 3, "a")
	w.sync(sh, 50)
	c := w.crash()
	c.shard(1).Gap(1, 50)
	if _, gaps := c.read(1, "a", Position{}, Filter{}); len(gaps) > 0 {
		t.Fatalf("gaps %v after a sync up to the snapshot", gaps)
	}
	c.shard(1).Gap(1, 60)
	if _, gaps := c.read(1, "a", Position{}, Filter{}); len(gaps) != 1 || gaps[0].Last != endOf(60) || gaps[0].First.Index < 50 {
		t.Fatalf("gaps %v, want one from 51 to 60", gaps)
	}
}

func TestSyncCountsOnlyEventsOnDisk(t *testing.T) {
	w := newWorld(t, nil)
	sh := w.shard(1)
	appendAll(sh, 1, 3, "a")
	assert.NoError(t, sh.flush(all))
	appendAll(sh, 60, 60, "a") // between the two steps of Sync(50)
	sh.disk.Lock()
	err := sh.sync(50)
	sh.disk.Unlock()
	assert.NoError(t, err)
	c := w.crash()
	c.shard(1).Gap(1, 50)
	if _, gaps := c.read(1, "a", Position{}, Filter{}); len(gaps) > 0 {
		t.Fatalf("gaps %v after a sync up to the snapshot", gaps)
	}
	appendAll(c.shard(1), 51, 60, "a")
	c.wantIndexes(1, "a", 51, 60)
}

// A crash leaves the files as they are, or with a part of the bytes that were written last.
func TestCrashKeepsSyncedEventsAndAPrefix(t *testing.T) {
	rounds := 12
	if gated.Has(gated.Long) {
		rounds = 400
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	for range rounds {
		w := newWorld(t, nil)
		sh := w.shard(1)
		synced := 1 + random.Uint64N(900)
		appendAll(sh, 1, synced, "a", "b")
		w.sync(sh, synced)
		durable := fileSize(t, w.files()[0])
		last := synced + random.Uint64N(3000)
		appendAll(sh, synced+1, last, "a", "b")
		assert.NoError(t, sh.flush(all))
		size := durable + random.Int64N(fileSize(t, w.files()[0])-durable+1)
		assert.NoError(t, os.Truncate(w.files()[0], size))
		checkCrash(t, w.crash(), synced, last)
	}
}

func checkCrash(t *testing.T, c *world, synced, last uint64) {
	t.Helper()
	sh := c.shard(1)
	events, _ := c.read(1, "b", Position{}, Filter{})
	if kept := uint64(len(events)); kept < synced || kept > last || kept > 0 && events[kept-1].Index != kept {
		t.Fatalf("%d entries after a crash, want a prefix with %d at least", kept, synced)
	}
	appendAll(sh, 1, last, "a", "b")
	c.wantIndexes(1, "a", 1, last)
	c.wantIndexes(1, "b", 1, last)
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	assert.NoError(t, err)
	return info.Size()
}

func TestDamagedBlockIsAGap(t *testing.T) {
	w := newWorld(t, nil)
	sh := w.shard(1)
	for i := range uint64(5) {
		appendAll(sh, 10*i+1, 10*i+10, "a")
		w.sync(sh, 10*i+10)
	}
	assert.NoError(t, w.store.Close())
	path := w.files()[0]
	clean, err := os.ReadFile(path)
	assert.NoError(t, err)
	for at := 50; at < len(clean); at += 97 {
		damaged := slices.Clone(clean)
		damaged[at] ^= 0xff
		assert.NoError(t, os.WriteFile(path, damaged, 0o600))
		c := w.crash()
		c.shard(1)
		events, gaps := c.read(1, "a", Position{}, Filter{})
		if len(events) != 50 && (len(events) != 40 || len(gaps) == 0 && events[39].Index != 40) {
			t.Fatalf("damage at %d: %d events, gaps %v", at, len(events), gaps)
		}
	}
	w.open()
}

func TestWaitReturnsWithANewerEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		sh := w.shard(1)
		appendAll(sh, 1, 5, "a")
		assert.NoError(t, w.store.Wait(t.Context(), 1, "a", Position{Index: 4}))
		woken := make(chan error, 1)
		go func() { woken <- w.store.Wait(t.Context(), 1, "a", Position{Index: 5}) }()
		synctest.Wait()
		appendAll(sh, 6, 6, "b")
		synctest.Wait()
		if len(woken) > 0 {
			t.Fatal("an event of another namespace ended the wait")
		}
		appendAll(sh, 7, 7, "a")
		assert.NoError(t, <-woken)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { woken <- w.store.Wait(ctx, 1, "a", Position{Index: 7}) }()
		synctest.Wait()
		cancel()
		if err := <-woken; !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v, want %v", err, context.Canceled)
		}
		go func() { woken <- w.store.Wait(t.Context(), 1, "a", Position{Index: 7}) }()
		synctest.Wait()
		assert.NoError(t, w.store.Close())
		if err := <-woken; !errors.Is(err, ErrClosed) {
			t.Fatalf("error %v, want %v", err, ErrClosed)
		}
	})
}

func TestFullDiskDropsEventsAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.Buffer = 256 << 10 })
		sh := w.shard(1)
		appendAll(sh, 1, 1000, "a")
		w.sync(sh, 1000)
		w.full.Store(true)
		appendAll(sh, 1001, 9000, "a")
		if err := sh.Sync(9000); !errors.Is(err, errFull) {
			t.Fatalf("Sync on a full disk: %v, want %v", err, errFull)
		}
		w.full.Store(false)
		w.sync(sh, 9000)
		appendAll(sh, 9001, 9100, "a")
		w.restart()
		w.shard(1)
		events, gaps := w.read(1, "a", Position{}, Filter{})
		if len(gaps) != 1 || gaps[0].Last.Index != 9000 {
			t.Fatalf("gaps %v, want one to 9000", gaps)
		}
		if first := gaps[0].First.Index; first < 2000 || uint64(len(events)) != first-1+100 {
			t.Fatalf("%d events around a gap from %d", len(events), first)
		}
	})
}

func TestWriterTriesAgainAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		sh := w.shard(1)
		w.full.Store(true)
		appendAll(sh, 1, 3000, "a")
		synctest.Wait()
		if sh.size() > 0 {
			t.Fatal("events were written to a full disk")
		}
		w.full.Store(false)
		<-time.After(retryPeriod + time.Millisecond)
		synctest.Wait()
		if sh.size() == 0 {
			t.Fatal("nothing was written a second after the disk had room again")
		}
		w.wantIndexes(1, "a", 1, 3000)
	})
}

func TestDropRemovesTheFolder(t *testing.T) {
	w := newWorld(t, nil)
	sh := w.shard(3)
	appendAll(sh, 1, 3000, "a")
	assert.NoError(t, sh.Drop())
	if ids, err := w.store.Stored(); err != nil || len(ids) > 0 {
		t.Fatalf("stored %v, error %v; want none", ids, err)
	}
	sh.Append(3001, slices.Values(entry(3001, "a")))
	if err := sh.Sync(3001); !errors.Is(err, ErrClosed) {
		t.Fatalf("Sync after Drop: %v", err)
	}
	if _, err := w.store.Read(t.Context(), 3, "a", Position{}, Filter{}, 1); !errors.Is(err, ErrNoShard) {
		t.Fatalf("Read after Drop: %v", err)
	}
	appendAll(w.shard(3), 1, 3, "a")
	w.wantIndexes(3, "a", 1, 3)
}

func TestLongAnswerIsCutBetweenCharacters(t *testing.T) {
	w := newWorld(t, nil)
	w.shard(1).Append(1, slices.Values([]*Event{{Namespace: "a", Answer: "x" + strings.Repeat("é", MaxAnswer)}}))
	events, _ := w.read(1, "a", Position{}, Filter{})
	if want := "x" + strings.Repeat("é", (MaxAnswer-1)/2); events[0].Answer != want {
		t.Fatalf("answer of %d bytes, want %d", len(events[0].Answer), len(want))
	}
}
