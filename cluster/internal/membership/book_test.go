package membership

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

var (
	one   = bookEntry{ID: "one", Name: "n1", Registered: "10.0.0.1:8500"}
	two   = bookEntry{ID: "two", Name: "n2", Registered: "10.0.0.2:8500"}
	three = bookEntry{ID: "three", Name: "n3", Registered: "10.0.0.3:8500"}
)

func logTo(w *strings.Builder) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// running opens the book of a folder and writes it until the test ends or stop is called.
func running(t *testing.T, dir string, log *strings.Builder) (b *book, stop func()) {
	t.Helper()
	b = openBook(dir, logTo(log))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); b.run(ctx) }()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return b, stop
}

func TestBookOutlivesTheProcess(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		b, _ := running(t, dir, &log)
		b.setReached("two", "10.0.0.22:8500")
		b.setRegistered([]bookEntry{one, two})
		b.setReached("one", "10.0.0.1:8500")
		synctest.Wait()
		again := openBook(dir, logTo(&log))
		want := []bookEntry{one, two}
		want[0].Reached, want[1].Reached = "10.0.0.1:8500", "10.0.0.22:8500"
		assert.EqualSlices(t, again.all(), want, "read again")
		assert.Equal(t, log.String(), "", "logged: %s", &log)
	})
}

func TestAddressBelongsToOneNode(t *testing.T) {
	b := openBook(t.TempDir(), slog.New(slog.DiscardHandler))
	b.setRegistered([]bookEntry{one, two, three})
	b.setReached("one", "a:1")
	b.setReached("two", "a:1")
	if n, _ := b.entry("one"); n.Reached != "" {
		t.Errorf("one was reached at %q, where two is now", n.Reached)
	}
	b.setRegistered([]bookEntry{one, three})
	if n, known := b.entry("two"); known {
		t.Errorf("two has left and is %+v", n)
	}
}

func TestDamagedBookIsEmpty(t *testing.T) {
	for _, damage := range []string{"", "{", `{"version": 9}`, "\x00\x00\x00"} {
		dir := t.TempDir()
		assert.NoError(t, os.WriteFile(filepath.Join(dir, bookFile), []byte(damage), 0o600))
		var log strings.Builder
		b := openBook(dir, logTo(&log))
		if len(b.all()) != 0 || !strings.Contains(log.String(), "cannot be read") {
			t.Errorf("%q: %v, logged: %s", damage, b.all(), &log)
		}
	}
}

// A disk that takes no write is logged once, and the book is written when the disk takes writes again.
func TestDiskThatTakesNoWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		b, _ := running(t, dir, &log)
		b.setReached("one", "a:1")
		time.Sleep(3 * retryAfter) // of the bubble's clock
		synctest.Wait()
		if told := strings.Count(log.String(), "cannot be written"); told != 1 {
			t.Errorf("told %d times: %s", told, &log)
		}
		assert.NoError(t, os.Mkdir(dir, 0o700))
		time.Sleep(retryAfter) // of the bubble's clock
		synctest.Wait()
		n, _ := openBook(dir, logTo(&log)).entry("one")
		assert.Equal(t, n.Reached, "a:1", "after the disk took writes again: %+v", n)
	})
}

func TestBookIsBounded(t *testing.T) {
	b := openBook(t.TempDir(), slog.New(slog.DiscardHandler))
	for i := range maxNodes + 10 {
		b.setReached(string(rune('a'+i)), "a:1")
	}
	assert.Equal(t, len(b.all()), maxNodes, "entries")
}
