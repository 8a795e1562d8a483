package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// TestPowerLoss checks that acknowledged bytes are in their files after a loss of power, over many turns of the
// segments, with files that are deleted and made anew under their old names. It plays 4 worlds with four losses each, and
// 40 in its long form; each run has other seeds.
func TestPowerLoss(t *testing.T) {
	worlds := 4
	if gated.Has(gated.Long) {
		worlds = 40
	}
	for range worlds {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t)
		w.open()
		for range 4 {
			var writers sync.WaitGroup
			for g := range 6 {
				rng := rand.New(rand.NewPCG(seed, rng.Uint64()))
				writers.Go(func() { w.writeSome(g, rng) })
			}
			writers.Wait()
			w.losePower(rng)
			w.check()
		}
		assert.NoError(t, w.journal.Close())
		if len(w.fatal) > 0 {
			t.Fatal(<-w.fatal)
		}
	}
}

// writeSome runs one group's writes: appends to a file, and now and then the next file or a fresh start.
func (w *world) writeSome(group int, rng *rand.Rand) {
	dir := fmt.Sprintf("groups/%d", group)
	w.remove(dir)
	f, d := w.create(dir + "/0")
	for i := range 60 {
		data := make([]byte, 1+rng.IntN(6000))
		for k := range data {
			data[k] = byte(rng.Uint32())
		}
		w.append(f, d, data)
		switch rng.IntN(15) {
		case 0:
			assert.Equal(w.t, f.Close(), nil)
			f, d = w.create(fmt.Sprint(dir, "/", i+1))
		case 1:
			w.remove(dir)
			f, d = w.create(dir + "/0")
		}
	}
}

// remove deletes a folder whose names may return.
func (w *world) remove(dir string) {
	w.mu.Lock()
	for path := range w.disks {
		if isBelow(path, filepath.FromSlash(dir)) {
			delete(w.disks, path)
		}
	}
	w.mu.Unlock()
	assert.Equal(w.t, os.RemoveAll(filepath.Join(w.root, dir)), nil)
	assert.Equal(w.t, w.journal.Forget(filepath.Join(w.root, dir)), nil)
}

// TestTornFrame checks that all earlier frames count, whatever is left of a frame whose write was interrupted.
func TestTornFrame(t *testing.T) {
	w := newWorld(t)
	w.open()
	f, d := w.create("a")
	w.append(f, d, bytes.Repeat([]byte("whole"), 100))
	s := w.journal.segments[w.journal.active]
	begins := s.at
	torn := newBatch(nil)
	torn.frame = appendWrite(torn.frame, "a", 0, bytes.Repeat([]byte("torn"), 500))
	seal(torn.frame, w.journal.epoch, w.journal.number+1, w.journal.begun)
	rng := rand.New(rand.NewPCG(1, 1))
	whole, err := os.ReadFile(s.file.Name())
	assert.NoError(t, err)
	for cut := 0; cut < len(torn.frame); cut += 37 {
		left := bytes.Clone(whole)
		copy(left[begins:], torn.frame[:cut])
		for range rng.IntN(3) {
			left[begins+int64(rng.IntN(len(torn.frame)))]++
		}
		assert.NoError(t, os.WriteFile(s.file.Name(), left, 0o600))
		frames, _, err := readFrames(w.config().Dir)
		assert.NoError(t, err, "cut at %d", cut)
		writes, err := effective(frames)
		if err != nil || len(writes["a"]) != 1 {
			t.Fatalf("cut at %d: %v, %d writes", cut, err, len(writes["a"]))
		}
	}
}

// TestDamage checks that Open reports acknowledged bytes that cannot be read.
func TestDamage(t *testing.T) {
	w := newWorld(t)
	w.open()
	f, d := w.create("a")
	s := w.journal.segments[w.journal.active]
	w.append(f, d, []byte("one"))
	begins := s.at
	w.append(f, d, []byte("two"))
	w.append(f, d, []byte("three"))
	_, err := s.file.WriteAt([]byte{0xff}, begins+headBytes+3)
	assert.NoError(t, err)
	_, err = Open(w.config())
	assert.ErrorIs(t, err, ErrDamaged, "opened with")
	_, err = Read(w.config().Dir)
	assert.ErrorIs(t, err, ErrDamaged, "read with")
}

// TestTornBegin checks that a start that ended during the write of its first frame loses no acknowledged bytes.
func TestTornBegin(t *testing.T) {
	w := newWorld(t)
	w.open()
	f, d := w.create("a")
	for range 100 { // over several epochs
		w.append(f, d, make([]byte, 3000))
		w.append(f, d, []byte("x"))
	}
	newer, older := w.journal.segments[w.journal.active], w.journal.segments[1-w.journal.active]
	before, err := os.ReadFile(newer.file.Name())
	assert.NoError(t, err)
	if _, err := older.file.WriteAt(bytes.Repeat([]byte{1}, align), 0); err != nil {
		t.Fatal(err)
	}
	w.losePower(rand.New(rand.NewPCG(1, 1)))
	w.check()
	if after, err := os.ReadFile(newer.file.Name()); err != nil || !bytes.Equal(after, before) {
		t.Error("the start overwrote frames that it still needed: ", err)
	}
}

// TestTornEpoch checks that a change to the other segment whose writes the power loss tears leaves no gap among the
// frames under them. Any of the sectors written since the last sync may have got to the disk, first or last.
func TestTornEpoch(t *testing.T) {
	w := newWorld(t)
	w.open()
	f, d := w.create("a")
	for w.journal.segments[w.journal.active].at < 100<<10 { // the segment under the new epoch holds one of this life
		w.append(f, d, make([]byte, 700))
	}
	for epoch := w.journal.epoch; w.journal.epoch == epoch; {
		w.append(f, d, make([]byte, 700))
	}
	for w.journal.segments[w.journal.active].at < 120<<10 {
		w.append(f, d, make([]byte, 700))
	}
	w.journal.workers.Wait()
	other := w.journal.segments[1-w.journal.active]
	durable, err := os.ReadFile(other.file.Name())
	assert.NoError(t, err)
	rng, losses := rand.New(rand.NewPCG(1, 1)), 0
	other.sync = func(*os.File) error {
		written, err := os.ReadFile(other.file.Name())
		assert.NoError(t, err)
		for range 20 {
			left := bytes.Clone(written)
			for at := 0; at < len(left); at += align {
				if rng.IntN(2) == 0 {
					copy(left[at:at+align], durable[at:])
				}
			}
			assert.NoError(t, os.WriteFile(other.file.Name(), left, 0o600))
			_, _, err = readFrames(w.config().Dir)
			assert.NoError(t, err, "after %d losses", losses)
			losses++
		}
		assert.NoError(t, os.WriteFile(other.file.Name(), written, 0o600))
		durable = written
		return nil
	}
	w.append(f, d, make([]byte, 20<<10))
	assert.Equal(t, losses >= 20, true, "the other segment was written")
}

// TestTornBeginOverTheNewest checks that void frames may have a gap although the frame that made them void is torn. A
// start whose first frame is in memory alone, because its sync failed, makes the next start write over the newest epoch
// that is on the disk.
func TestTornBeginOverTheNewest(t *testing.T) {
	frame := func(epoch, number, begun uint64, body []byte) []byte {
		b := append(make([]byte, headBytes), body...)
		seal(b, epoch, number, begun)
		return append(b, make([]byte, align-len(b))...)
	}
	write := func(data string) []byte { return appendWrite(nil, "a", 0, []byte(data)) }
	dir := t.TempDir()
	for name, frames := range map[string][][]byte{
		// Frame 5 failed and was in memory alone. Frame 6 made all before it void, until the next start tore it.
		"a": {frame(1, 3, 1, write("old")), frame(1, 4, 1, write("old"))},
		"b": {make([]byte, align), frame(2, 7, 6, write("new")), frame(2, 8, 6, write("new"))},
	} {
		assert.NoError(t, os.WriteFile(filepath.Join(dir, name), slices.Concat(frames...), 0o600))
	}
	writes, st, err := read(dir)
	if err != nil || st.number != 8 || len(writes["a"]) != 2 || string(writes["a"][0].data) != "new" {
		t.Errorf("%v, at frame %d: %v", writes, st.number, err)
	}
}

// TestVoid checks that a journal that was closed or opened has no writes for files that changed since.
func TestVoid(t *testing.T) {
	w := newWorld(t)
	w.open()
	f, d := w.create("a")
	w.append(f, d, []byte("old"))
	assert.NoError(t, w.journal.Close())
	assert.Equal(t, string(d.durable), "old", "is in the file")
	changed := filepath.Join(w.root, "a")
	assert.NoError(t, os.WriteFile(changed, []byte("new"), 0o600))
	for range 5 {
		w.open()
		if err := w.journal.closeSegments(); err != nil { // as if killed
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(changed); err != nil || string(got) != "new" {
		t.Errorf("%q %v", got, err)
	}
}

// TestWritesShareASync checks that writes that come during a sync share the next one.
func TestWritesShareASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cfg, hold, syncs := w.config(), make(chan struct{}), 0
		close(hold)
		cfg.sync = func(*os.File) error { syncs++; <-hold; return nil }
		j, err := Open(cfg)
		assert.NoError(t, err)
		w.journal = j
		files, disks := make([]*File, 50), make([]*disk, 50)
		for i := range files {
			files[i], disks[i] = w.create(fmt.Sprint(i))
		}
		hold, syncs = make(chan struct{}), 0
		var writers sync.WaitGroup
		for i := range files {
			writers.Go(func() { w.append(files[i], disks[i], []byte("x")) })
		}
		synctest.Wait()
		close(hold)
		writers.Wait()
		assert.Equal(t, syncs, 2, "syncs for 50 writes")
		if disks[7].syncs != 1 { // one at its creation
			t.Errorf("%d syncs of a file", disks[7].syncs)
		}
		assert.Equal(t, j.Close(), nil)
	})
}

// TestNoWriteBehindAFailedOne checks that the writes that came during a sync are not acknowledged if that sync fails,
// and that no frame of them follows the lost one.
func TestNoWriteBehindAFailedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		var files [2]*File
		for i := range files {
			files[i], _ = w.create(fmt.Sprint("file-", i))
		}
		number, fails := w.journal.number, make(chan error, 1)
		w.journal.segments[w.journal.active].sync = func(*os.File) error {
			select {
			case err := <-fails:
				return err
			case <-time.After(time.Second): // a later sync would succeed
				return nil
			}
		}
		var errs [2]error
		var writers sync.WaitGroup
		for i, f := range files {
			writers.Go(func() {
				_, err := f.WriteAt([]byte("lost"), 0)
				errs[i] = errors.Join(err, f.Sync())
			})
			synctest.Wait()
		}
		fails <- errors.New("the disk is broken")
		writers.Wait()
		if errs[0] == nil || errs[1] == nil || w.journal.number != number+1 {
			t.Errorf("%v, then %v, with %d frames", errs[0], errs[1], w.journal.number-number)
		}
	})
}

// TestLargeWritesAreTheirOwn checks that a large write syncs its own file.
func TestLargeWritesAreTheirOwn(t *testing.T) {
	w := newWorld(t)
	w.open()
	f, d := w.create("a")
	for _, size := range []int{maxRecord + 1, 40 << 10} { // more than a record, more than a small segment's frame
		before := d.syncs
		w.append(f, d, make([]byte, size))
		assert.Equal(t, d.syncs, before+1, "%d bytes: not synced in the file", size)
	}
	w.append(f, d, []byte("x"))
	w.losePower(rand.New(rand.NewPCG(1, 1)))
	w.check()
}

// TestMemoryIsUsedAgain checks that the buffers of writes are reused unless they have grown large.
func TestMemoryIsUsedAgain(t *testing.T) {
	w := newWorld(t)
	cfg := w.config()
	cfg.SegmentSize = DefaultSegmentSize
	j, err := Open(cfg)
	assert.NoError(t, err)
	w.journal = j
	f, d := w.create("a")
	data := make([]byte, 40<<10)
	w.append(f, d, data)
	frame, record := &j.spare[0], &f.record[:1][0]
	w.append(f, d, data)
	assert.Equal(t, &j.spare[0], frame, "a second frame was made")
	assert.Equal(t, &f.record[:1][0], record, "a second record was made")
	j.next = newBatch(make([]byte, 0, keptFrame+1))
	j.spare = nil
	w.append(f, d, data)
	if cap(j.spare) > keptFrame {
		t.Errorf("a frame of %d bytes is kept", cap(j.spare))
	}
}

// TestFailure checks that the first failure is reported once, and that every later write gets it.
func TestFailure(t *testing.T) {
	broken := errors.New("broken")
	w := newWorld(t)
	w.open()
	f, d := w.create("a")
	w.journal.segments[w.journal.active].sync = func(*os.File) error { return broken }
	for range 2 {
		_, err := f.WriteAt([]byte("x"), int64(len(d.volatile)))
		assert.NoError(t, err)
		assert.ErrorIs(t, f.Sync(), broken, "synced with")
	}
	assert.ErrorIs(t, w.journal.Forget(filepath.Join(w.root, "groups")), broken, "forgot with")
	assert.ErrorIs(t, w.journal.Close(), broken, "closed with")
	assert.Equal(t, len(w.fatal), 1, "told N times")
}

// TestFailureBehind checks that a segment is not overwritten if a file with frames in it cannot be synced.
func TestFailureBehind(t *testing.T) {
	broken := errors.New("broken")
	w := newWorld(t)
	w.open()
	f, d := w.create("a")
	d.fails = broken
	var failed error
	for range 300 {
		_, err := f.WriteAt(make([]byte, 1000), int64(len(d.volatile)))
		assert.NoError(t, err)
		if failed = f.Sync(); failed != nil {
			break
		}
	}
	if !errors.Is(failed, broken) || !errors.Is(<-w.fatal, broken) {
		t.Fatalf("ended with %v", failed)
	}
	acknowledged := len(d.volatile) - 1000
	w.losePower(rand.New(rand.NewPCG(1, 1)))
	got, err := os.ReadFile(filepath.Join(w.root, "a"))
	if err != nil || !bytes.Equal(got[:acknowledged], d.volatile[:acknowledged]) {
		t.Errorf("not as it was acknowledged: %v", err)
	}
}

// TestAFailedSyncIsTheLast checks that a file whose sync failed acknowledges nothing more by a sync of its own: that one
// would succeed without the bytes that the first could not write.
func TestAFailedSyncIsTheLast(t *testing.T) {
	w := newWorld(t)
	w.open()
	f, d := w.create("a")
	w.append(f, d, []byte("in the journal"))
	d.fails = errors.New("broken")
	w.journal.release(w.journal.segments[w.journal.active])
	broken := d.fails
	d.fails = nil
	assert.ErrorIs(t, <-w.fatal, broken, "told")
	_, err := f.WriteAt(make([]byte, maxRecord+1), int64(len(d.volatile)))
	assert.NoError(t, err)
	assert.ErrorIs(t, f.Sync(), broken, "synced with")
}

// forsaking is a file after a failed sync: a later sync makes only those bytes durable that are written anew.
type forsaking struct {
	disk
	rewritten []byte // content of all later writes
}

func (f *forsaking) WriteAt(p []byte, at int64) (int, error) {
	n, err := f.disk.WriteAt(p, at)
	f.rewritten = append(f.rewritten, make([]byte, max(0, len(f.volatile)-len(f.rewritten)))...)
	copy(f.rewritten[at:], p)
	return n, err
}

// TestBytesBehindTheRecordsAreWrittenAgain checks that a start writes an append again that is in the file and in no
// frame, because the disk may lack it.
func TestBytesBehindTheRecordsAreWrittenAgain(t *testing.T) {
	f := &forsaking{disk: disk{volatile: []byte("synced, in a frame, in none\x00\x00")}}
	records := []record{{at: 15, data: []byte("ame")}, {at: 8, data: []byte("in a fr")}}
	assert.NoError(t, rewrite(f, records))
	assert.Equal(t, string(f.volatile), "synced, in a frame, in none\x00\x00")
	assert.Equal(t, string(f.rewritten), "\x00\x00\x00\x00\x00\x00\x00\x00in a frame, in none\x00\x00")
}

// TestClosedFilesAreSynced checks that files are synced before they are closed.
func TestClosedFilesAreSynced(t *testing.T) {
	w := newWorld(t)
	w.open()
	f, d := w.create("a")
	w.append(f, d, []byte("x"))
	if err := f.Close(); err != nil || d.closed {
		t.Errorf("closed %v, %v", d.closed, err)
	}
	other, of := w.create("b")
	for range 300 {
		w.append(other, of, make([]byte, 1000))
	}
	assert.NoError(t, w.journal.Close())
	if !d.closed || string(d.durable) != "x" {
		t.Errorf("closed %v, %q in the file", d.closed, d.durable)
	}
}

// TestPathsStayBelow checks that neither a file nor a record leads out of the root.
func TestPathsStayBelow(t *testing.T) {
	w := newWorld(t)
	w.open()
	_, err := w.journal.File(filepath.Join(w.root, "..", "x"), &disk{}, false)
	assert.Error(t, err, "a file outside is taken")
	for _, path := range []string{"../x", "/etc/x", ""} {
		_, _, err := nextRecord(appendWrite(nil, path, 0, nil))
		assert.ErrorIs(t, err, errMalformed, "%q", path)
	}
}

// FuzzRecords reads records as damage might leave them that no checksum detected.
func FuzzRecords(f *testing.F) {
	f.Add(appendWrite(appendForget(appendBegin(nil), "groups/1"), "groups/1/a", 7, []byte("data")))
	f.Fuzz(func(t *testing.T, body []byte) {
		writes, err := effective([]found{{body: body}})
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Error(err)
		}
		for path, of := range writes {
			if !filepath.IsLocal(path) {
				t.Errorf("%q", path)
			}
			for _, r := range of {
				if r.at < 0 || len(r.data) > len(body) {
					t.Errorf("%d bytes at %d", len(r.data), r.at)
				}
			}
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	for _, groups := range []int{1, 4, 12} {
		b.Run(fmt.Sprint("groups=", groups), func(b *testing.B) {
			root := b.TempDir()
			j, err := Open(Config{Dir: filepath.Join(root, "journal"), Root: root, Fatal: func(err error) { b.Error(err) }})
			assert.NoError(b, err)
			defer func() {
				assert.Equal(b, j.Close(), nil)
			}()
			var writers sync.WaitGroup
			data := make([]byte, 1200)
			for g := range groups {
				inner, err := os.Create(filepath.Join(root, fmt.Sprint(g)))
				assert.NoError(b, err)
				f, err := j.File(inner.Name(), inner, false)
				assert.NoError(b, err)
				writers.Go(func() {
					for i := range b.N / groups {
						_, err := f.WriteAt(data, int64(i%1000*len(data)))
						assert.Equal(b, err, nil)
						assert.Equal(b, f.Sync(), nil)
					}
				})
			}
			writers.Wait()
		})
	}
}
