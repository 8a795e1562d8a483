package journal

import (
	"io"
	"sync"
)

// Inner is a file whose Sync makes its writes durable.
type Inner interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Sync() error
}

// File is a file whose Sync is shared with other files. One goroutine at a time may write to it.
type File struct {
	inner   Inner
	journal *Journal
	path    string // below the root
	record  []byte // the writes since the last Sync
	own     bool   // the next Sync syncs the file itself

	syncing sync.Mutex
	failed  error // of syncInner; guarded by syncing

	holders int  // number of segments with frames of the file; guarded by the journal
	closed  bool // to be closed once holders is 0; guarded by the journal
}

// maxRecord limits the bytes that one Sync of a file adds to the journal. More bytes are worth a sync of the file.
const (
	maxRecord  = 64 << 10
	keptRecord = 96 << 10 // a larger buffer is not kept for the next record
)

// File routes a file's writes through the journal. A new file's first sync is its own, because it covers the name and
// the size, too.
func (j *Journal) File(path string, inner Inner, isNew bool) (*File, error) {
	below, err := j.below(path)
	if err != nil {
		return nil, err
	}
	return &File{inner: inner, journal: j, path: below, own: isNew}, nil
}

// ReadAt reads the file, unsynced writes included.
func (f *File) ReadAt(p []byte, at int64) (int, error) { return f.inner.ReadAt(p, at) }

// WriteAt writes p at an offset. The bytes are durable only after Sync.
func (f *File) WriteAt(p []byte, at int64) (int, error) {
	if f.own = f.own || len(f.record)+len(p) > maxRecord; !f.own {
		f.record = appendWrite(f.record, f.path, at, p)
	}
	return f.inner.WriteAt(p, at)
}

// Sync returns when all earlier writes are durable.
func (f *File) Sync() error {
	record, own := f.record, f.own
	if f.record, f.own = f.record[:0], false; cap(f.record) > keptRecord {
		f.record = nil
	}
	if !own {
		if len(record) == 0 {
			return nil
		}
		joined, err := f.journal.commit(f, record)
		if joined {
			return err
		}
	}
	return f.syncInner()
}

// syncInner syncs the file itself. A failure is final, because a further sync could succeed without the bytes.
func (f *File) syncInner() error {
	f.syncing.Lock()
	defer f.syncing.Unlock()
	if f.failed == nil {
		f.failed = f.inner.Sync()
	}
	return f.failed
}

// Close closes the file, at once or when the journal's writes to it are durable in the file.
func (f *File) Close() error {
	f.journal.mu.Lock()
	f.closed = true
	held := f.holders > 0
	f.journal.mu.Unlock()
	if held {
		return nil
	}
	return f.inner.Close()
}

// let records that a segment no longer holds the file, and reports whether the file must be closed now. The caller
// holds the journal's lock.
func (f *File) let() bool {
	f.holders--
	return f.closed && f.holders == 0
}
