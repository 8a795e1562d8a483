package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfryhq/belfry/internal/assert"
)

// disk is a disk that can be full or hang. The files on it are real.
type disk struct {
	mu    sync.Mutex
	full  bool
	hangs chan struct{} // writes and syncs wait until it is closed; nil: they do not
}

type diskFile struct {
	file
	disk *disk
}

func (d *disk) open(path string) (file, error) {
	f, err := openFile(path)
	return &diskFile{f, d}, err
}

func (d *disk) fill()                    { d.set(true, nil) }
func (d *disk) mend()                    { d.set(false, nil) }
func (d *disk) hang(until chan struct{}) { d.set(false, until) }

func (d *disk) set(full bool, hangs chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full, d.hangs = full, hangs
}

func (d *disk) state() (full bool) {
	d.mu.Lock()
	full, hangs := d.full, d.hangs
	d.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	return full
}

// Write writes a part of b if the disk is full.
func (f *diskFile) Write(b []byte) (int, error) {
	if !f.disk.state() {
		return f.file.Write(b)
	}
	n, err := f.file.Write(b[:len(b)/2])
	return n, errors.Join(err, syscall.ENOSPC)
}

func (f *diskFile) Sync() error {
	f.disk.state()
	return f.file.Sync()
}

// on opens a log on a disk.
func (d *disk) on(t *testing.T, change func(*Config)) *Log {
	t.Helper()
	return open(t, t.TempDir(), func(c *Config) {
		c.open = d.open
		if change != nil {
			change(c)
		}
	})
}

// A full disk stops no change and costs none its record: the records wait for space, and have no gap before them. The
// fault is logged once and seen.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		d := new(disk)
		l := d.on(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&logged, nil)) })
		change(t, l, Record{Route: "a"})
		d.fill()
		for i := range 3 {
			change(t, l, Record{Route: fmt.Sprint("waits", i)})
		}
		l.Refuse(Record{Route: "lost", From: "10.0.0.1"})
		synctest.Wait()
		if err := l.Failing(); !errors.Is(err, syscall.ENOSPC) || testutil.ToFloat64(l.metrics.failing) != 1 ||
			testutil.ToFloat64(l.metrics.waiting) != 2 || testutil.ToFloat64(l.metrics.lost) != 1 {
			t.Errorf("%v, %v wait, %v lost", err, testutil.ToFloat64(l.metrics.waiting), testutil.ToFloat64(l.metrics.lost))
		}
		if _, records := page(t, l, Query{}); routes(records) != "a" {
			t.Errorf("on the full disk: %s", routes(records))
		}
		d.mend()
		l.Refuse(Record{Route: "refused", From: "10.0.0.2"})
		change(t, l, Record{Route: "b"})
		synctest.Wait()
		if l.Failing() != nil || testutil.ToFloat64(l.metrics.failing) != 0 {
			t.Error(l.Failing())
		}
		p, records := page(t, l, Query{})
		if text := routes(records); text != "a waits0 waits1 waits2 refused b" && text != "a waits0 waits1 waits2 b refused" {
			t.Errorf("%s", text)
		}
		if lostIn(p) != 0 || records[3].ID != l.changes.upcoming().log+"-4" {
			t.Errorf("%d lost before %+v", lostIn(p), records)
		}
		mustClose(t, l)
		if text := logged.String(); strings.Count(text, "level=ERROR") != 2 { // one for each kind
			t.Error(text)
		}
	})
}

// A change for whose record there is no room is refused. As many have room as the log says, and the room comes back.
func TestChangesNeedRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(disk)
		l := d.on(t, nil)
		d.fill()
		for range Rooms - 1 {
			assert.NoError(t, l.Reserve(t.Context()))
			l.changes.queue <- entry{Record{Route: "waits"}, make(chan struct{})} // as Change, without its wait
		}
		change(t, l, Record{Route: "last"})
		begin := time.Now()
		if err := l.Reserve(t.Context()); !errors.Is(err, ErrNoRoom) || time.Since(begin) != Patience {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		begin = time.Now()
		if err := l.Reserve(gone); !errors.Is(err, ErrNoRoom) || time.Since(begin) != 0 {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		assert.Equal(t, testutil.ToFloat64(l.metrics.roomless), 2, "refused changes are counted")
		d.mend()
		time.Sleep(2 * syncPeriod) // of the bubble's clock: until the next attempt to write
		for range Rooms {
			assert.NoError(t, l.Reserve(t.Context()))
		}
		for range Rooms {
			l.Release()
		}
		if got := l.changes.files.last.number; got != Rooms {
			t.Errorf("%d of %d records were written", got, Rooms)
		}
		mustClose(t, l)
	})
}

// A disk that hangs delays a change by a bounded time, and nothing else: not a refusal, a reader, a metric or the
// doctor. All records come when the disk goes on.
func TestHungDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, registry := new(disk), prometheus.NewRegistry()
		l := d.on(t, func(c *Config) { c.Registerer = registry })
		change(t, l, Record{Route: "a"})
		hangs := make(chan struct{})
		d.hang(hangs)
		begin := time.Now()
		change(t, l, Record{Route: "b"})
		assert.Equal(t, time.Since(begin), Patience, "a change took")
		begin = time.Now()
		for i := range 10 * MaxGroups {
			l.Refuse(Record{Route: "refused", From: fmt.Sprintf("10.0.%d.%d", i/256, i%256)})
		}
		if p, records := page(t, l, Query{}); routes(records) != "a" || p.More {
			t.Errorf("%s", routes(records))
		}
		if families, err := registry.Gather(); err != nil || len(families) < 5 {
			t.Errorf("%v, %v", families, err)
		}
		assert.Equal(t, time.Since(begin), 0, "refusals, a page and the metrics took")
		time.Sleep(3 * time.Second) // of the bubble's clock
		if err := l.Failing(); err == nil || !strings.Contains(err.Error(), "has not ended for") {
			t.Errorf("%v", err)
		}
		d.mend()
		close(hangs)
		change(t, l, Record{Route: "c"})
		synctest.Wait()
		assert.Equal(t, l.Failing(), nil)
		_, records := page(t, l, Query{})
		assert.Equal(t, strings.ReplaceAll(routes(records), " refused", ""), "a b * c")
		if n := strings.Count(routes(records), "refused"); n != MaxGroups { // and one record for the others
			t.Errorf("%d refusals", n)
		}
		mustClose(t, l)
	})
}

// A log whose disk hangs closes after a bounded time, and says that records are missing.
func TestCloseOnAHungDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(disk)
		l := d.on(t, nil)
		hangs := make(chan struct{})
		d.hang(hangs)
		change(t, l, Record{Route: "a"})
		change(t, l, Record{Route: "b"})
		begin := time.Now()
		if err := l.Close(); err == nil || !strings.Contains(err.Error(), "1 records") || time.Since(begin) != closePatience {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		close(hangs)
		<-l.refusals.done
	})
}

// A record that the disk has not taken when the log closes goes to the node's log.
func TestCloseOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		d := new(disk)
		l := d.on(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&logged, nil)) })
		d.fill()
		for _, route := range []string{"/x", "/y"} {
			change(t, l, Record{Route: route, Request: "bfy_secret"})
		}
		mustClose(t, l)
		for _, want := range []string{"/x", "/y"} {
			if strings.Count(logged.String(), want) != 1 {
				t.Errorf("%s is not logged once: %s", want, logged.String())
			}
		}
		if testutil.ToFloat64(l.metrics.lost) != 2 || strings.Contains(logged.String(), "bfy_secret") {
			t.Errorf("%v lost: %s", testutil.ToFloat64(l.metrics.lost), logged.String())
		}
	})
}

// A reader does not wait for a disk that hangs longer than its context lasts. Opening a named pipe hangs as such a disk
// does.
func TestReaderOfAHungDisk(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	change(t, l, Record{Route: "a"})
	pipe := l.cfg.Path + ".0000000000000001"
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for range maxReaders + 2 { // the last ones find no place to wait
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := l.Read(ctx, Query{Limit: 1})
		assert.ErrorIs(t, err, context.Canceled)
	}
	both, err := os.OpenFile(pipe, os.O_RDWR, 0) // lets all readers go on
	assert.NoError(t, err)
	for range maxReaders {
		l.readers <- struct{}{} // all have ended
	}
	assert.NoError(t, errors.Join(both.Close(), os.Remove(pipe)))
	for range maxReaders {
		<-l.readers
	}
	_, records := page(t, l, Query{})
	assert.Equal(t, routes(records), "a")
	mustClose(t, l)
}

// Readers that run while the files are turned over get every record once, in order.
func TestReadersBesideRotation(t *testing.T) {
	l := open(t, t.TempDir(), func(c *Config) { c.FileBytes, c.Files = 500, 1000 })
	defer mustClose(t, l)
	const all = 400
	go func() {
		for i := range all {
			if l.Reserve(t.Context()) == nil {
				l.Change(Record{Route: fmt.Sprint(i)})
			}
		}
	}()
	q := Query{Limit: 7}
	for seen := 0; seen < all; {
		p, records := page(t, l, q)
		for _, r := range records {
			assert.MustEqual(t, r.Route, fmt.Sprint(seen))
			seen++
		}
		assert.MustEqual(t, lostIn(p), 0, "lost")
		q.After = p.Next
	}
}

// brokenWriter refuses every line.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("closed") }

// hungWriter takes no line.
type hungWriter struct{ ends chan struct{} }

func (w hungWriter) Write([]byte) (int, error) { <-w.ends; return 0, errors.New("closed") }

// A standard output that is gone or hangs counts as a loss. The file has the records all the same, and at once.
func TestBrokenCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, t.TempDir(), func(c *Config) { c.Also = brokenWriter{} })
		change(t, l, Record{Route: "a"})
		synctest.Wait()
		if _, records := page(t, l, Query{}); routes(records) != "a" || l.Failing() == nil {
			t.Errorf("%s, %v", routes(records), l.Failing())
		}
		mustClose(t, l)

		hung := hungWriter{make(chan struct{})}
		l = open(t, t.TempDir(), func(c *Config) { c.Also = hung })
		begin := time.Now()
		for range maxCopies + 3 {
			change(t, l, Record{Route: "b"})
		}
		assert.Equal(t, time.Since(begin), 0, "changes took")
		if n := testutil.ToFloat64(l.metrics.lost); n != 2 { // one line is being written
			t.Errorf("%v lost", n)
		}
		time.Sleep(2 * time.Second) // of the bubble's clock
		assert.Error(t, l.Failing(), "a copy that hangs is not seen")
		close(hung.ends)
		mustClose(t, l)
	})
}

// A reader that has opened the files before the writer turns them over gets the records of then, each once: the newest
// file has another name by now, and another file has its name.
func TestReaderOfFilesThatWereTurnedOver(t *testing.T) {
	l := open(t, t.TempDir(), func(c *Config) { c.FileBytes, c.Files = 500, 100 })
	defer mustClose(t, l)
	turn := func() {
		for i := range 10 {
			change(t, l, Record{Route: strings.Repeat("x", 20*i)})
		}
	}
	turn()
	next := l.changes.upcoming()
	sections, err := openSections(l.cfg.Path, 0)
	defer closeAll(sections)
	assert.NoError(t, err)
	turn()
	s := scan{query: Query{Limit: MaxLimit}}
	for i, part := range sections {
		bound := next
		if i+1 < len(sections) {
			bound = sections[i+1].first
		}
		assert.NoError(t, s.read(t.Context(), part, bound))
	}
	if last := (position{next.log, next.number - 1}).String(); len(s.page.Lines) != 10 || s.page.Next != last {
		t.Errorf("%d records up to %s: %s", len(s.page.Lines), s.page.Next, s.page.Lines)
	}
}

// A line that is being written is in the next page.
func TestReaderBesideAWrite(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	defer mustClose(t, l)
	change(t, l, Record{Route: "a"})
	f, err := os.OpenFile(l.cfg.Path, os.O_WRONLY|os.O_APPEND, 0)
	assert.NoError(t, err)
	_, at := l.changes.number(Record{})
	line := fmt.Sprintf(`{"id":%q,"time":"2026-01-01T00:00:00.000Z","route":"b"}`+"\n", at)
	for _, w := range []struct{ half, want string }{{line[:20], "a"}, {line[20:], "a b"}} {
		_, err := f.WriteString(w.half)
		assert.NoError(t, err)
		_, records := page(t, l, Query{})
		assert.Equal(t, routes(records), w.want, "after %s", w.half)
	}
	assert.NoError(t, f.Close())
}
