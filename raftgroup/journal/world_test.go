package journal

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

const page = 4096

// world is a folder with files and a journal, with the bytes that would survive a loss of power.
type world struct {
	t       *testing.T
	root    string
	journal *Journal
	fatal   chan error

	mu    sync.Mutex
	disks map[string]*disk // by path below the root
}

// disk is a file that loses unsynced writes.
type disk struct {
	mu       sync.Mutex
	durable  []byte
	volatile []byte
	closed   bool
	fails    error // the error of Sync
	syncs    int
}

func (d *disk) ReadAt(p []byte, at int64) (int, error) {
	return bytes.NewReader(d.volatile).ReadAt(p, at)
}

func (d *disk) WriteAt(p []byte, at int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if end := int(at) + len(p); end > len(d.volatile) {
		d.volatile = append(d.volatile, make([]byte, end-len(d.volatile))...)
	}
	return copy(d.volatile[at:], p), nil
}

func (d *disk) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.syncs++
	if d.fails == nil {
		d.durable = bytes.Clone(d.volatile)
	}
	return d.fails
}

func (d *disk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return nil
}

func newWorld(t *testing.T) *world {
	return &world{t: t, root: t.TempDir(), fatal: make(chan error, 10), disks: map[string]*disk{}}
}

func (w *world) config() Config {
	return Config{
		Dir: filepath.Join(w.root, "journal"), Root: w.root, Fatal: func(err error) { w.fatal <- err }, SegmentSize: 128 << 10,
		sync: func(*os.File) error { return nil }, // a loss of power takes nothing from the journal itself
	}
}

func (w *world) open() {
	w.t.Helper()
	j, err := Open(w.config())
	assert.NoError(w.t, err)
	w.journal = j
}

// create makes an empty file.
func (w *world) create(path string) (*File, *disk) {
	w.t.Helper()
	d := &disk{}
	w.mu.Lock()
	w.disks[path] = d
	w.mu.Unlock()
	f, err := w.journal.File(filepath.Join(w.root, path), d, true)
	assert.NoError(w.t, err)
	w.append(f, d, nil)
	return f, d
}

// append writes at a file's end and syncs.
func (w *world) append(f *File, d *disk, data []byte) {
	_, err := f.WriteAt(data, int64(len(d.volatile)))
	assert.Equal(w.t, err, nil)
	assert.Equal(w.t, f.Sync(), nil)
}

// losePower leaves in the folder the synced bytes and random pages of the rest, and opens the journal again.
func (w *world) losePower(rng *rand.Rand) {
	w.t.Helper()
	w.journal.workers.Wait()
	for path, d := range w.disks {
		left := bytes.Clone(d.durable)
		left = append(left, make([]byte, len(d.volatile)-len(left))...)
		for at := 0; at < len(left); at += page {
			if rng.IntN(2) == 0 {
				end := min(at+page, len(left))
				copy(left[at:end], d.volatile[at:end])
			}
		}
		full := filepath.Join(w.root, path)
		assert.NoError(w.t, os.MkdirAll(filepath.Dir(full), 0o700))
		assert.NoError(w.t, os.WriteFile(full, left, 0o600))
	}
	assert.NoError(w.t, w.journal.closeSegments())
	w.open()
}

// check compares each file with its acknowledged bytes, and continues with its present content.
func (w *world) check() {
	w.t.Helper()
	for path, d := range w.disks {
		got, err := os.ReadFile(filepath.Join(w.root, path))
		assert.NoError(w.t, err)
		if !bytes.Equal(got, d.volatile) {
			w.t.Fatalf("%s: %d bytes are not as they were acknowledged", path, len(d.volatile))
		}
		d.durable = bytes.Clone(got)
	}
}
