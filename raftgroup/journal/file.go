package journal

import "io"

// Inner is a file whose writes become durable by Sync.
type Inner interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Sync() error
}

// File is a file whose Sync is shared with others. Writes come one at a time.
type File struct {
	inner   Inner
	journal *Journal
	path    string // below the root
	record  []byte // the writes since the last Sync
	own     bool   // the next Sync is the file's own

	holders int  // segments that hold it; guarded by the journal
	closed  bool // it is to be closed when none does; so is this
}

// maxRecord is how much of one file goes into the journal at once: more is worth a sync of its own.
const (
	maxRecord  = 64 << 10
	keptRecord = 96 << 10 // a buffer that grew beyond is not kept for the next
)

// File has a file's writes go through the journal. A new one's first sync is its own: it is of its name and size, too.
func (j *Journal) File(path string, inner Inner, isNew bool) (*File, error) {
	below, err := j.below(path)
	if err != nil {
		return nil, err
	}
	return &File{inner: inner, journal: j, path: below, own: isNew}, nil
}

// ReadAt reads the file, unsynced writes included.
func (f *File) ReadAt(p []byte, at int64) (int, error) { return f.inner.ReadAt(p, at) }

// WriteAt writes. The bytes are durable only after Sync.
func (f *File) WriteAt(p []byte, at int64) (int, error) {
	if f.own = f.own || len(f.record)+len(p) > maxRecord; !f.own {
		f.record = appendWrite(f.record, f.path, at, p)
	}
	return f.inner.WriteAt(p, at)
}

// Sync returns when all writes before it are durable.
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
	if err := f.inner.Sync(); err != nil {
		f.own = true
		return err
	}
	return nil
}

// Close closes the file, or has it closed once the journal's writes to it are durable in the file.
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

// let is called when a segment does not hold the file any more, and tells whether it is to be closed; with the
// journal's lock.
func (f *File) let() bool {
	f.holders--
	return f.closed && f.holders == 0
}
