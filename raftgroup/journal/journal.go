package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/raftgroup/durable"
)

var (
	// ErrDamaged is the error of a journal whose acknowledged bytes can no longer be read.
	ErrDamaged = errors.New("the journal is damaged")
	// ErrClosed is the error of a write after Close.
	ErrClosed = errors.New("the journal is closed")
)

// Config sets the journal's folder and its surroundings.
type Config struct {
	Dir  string // the journal's own folder; made if absent
	Root string // the folder to which the paths of files are relative

	// Fatal is called once, when the disk has failed. Later writes fail with the same error. Required.
	Fatal      func(error)
	Registerer prometheus.Registerer // default: none

	// SegmentSize is the size of each of the two segments in bytes. Default DefaultSegmentSize.
	SegmentSize int64

	sync func(*os.File) error // syncs a segment's data; default durable.SyncData. Tests replace it
}

// DefaultSegmentSize is enough for a second or two of writes under full load.
const DefaultSegmentSize = 4 << 20

// Journal is an open journal. Any goroutine may write to its files, one at a time to each file.
type Journal struct {
	cfg     Config
	metrics *metrics

	mu       sync.Mutex
	freed    *sync.Cond // signals that a segment can be overwritten, or that a write has failed
	segments [2]*segment
	active   int    // index of the active segment
	epoch    uint64 // of the active segment
	number   uint64 // number of the last frame
	begun    uint64 // number of the frame of begin
	next     *batch // the batch that gathers writes; nil: none has come
	spare    []byte // buffer of a written frame, for the next batch; nil: none
	writing  bool   // a goroutine writes a frame and will hand over to next
	err      error  // set once: no frame is written any more
	workers  sync.WaitGroup
}

// batch holds the content of one frame.
type batch struct {
	frame []byte // with room for the frame's head
	files []*File
	turn  chan struct{} // capacity 1: the Sync that takes the token writes the frame
	done  chan struct{} // closed once err is set
	err   error
}

// Open replays the journal into the files and begins a new one. An error of Open does not call Config.Fatal.
func Open(cfg Config) (*Journal, error) {
	if cfg.SegmentSize == 0 {
		cfg.SegmentSize = DefaultSegmentSize
	}
	if cfg.sync == nil {
		cfg.sync = durable.SyncData
	}
	j := &Journal{cfg: cfg, metrics: newMetrics(cfg.Registerer)}
	j.freed = sync.NewCond(&j.mu)
	if err := j.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("journal: %w", err), j.closeSegments())
	}
	return j, nil
}

func (j *Journal) open() error {
	found, err := replay(j.cfg)
	if err != nil {
		return err
	}
	for i := range j.segments {
		if j.segments[i], err = openSegment(filepath.Join(j.cfg.Dir, segmentNames[i]), j.cfg); err != nil {
			return err
		}
	}
	if err := durable.SyncDir(j.cfg.Dir); err != nil {
		return err
	}
	j.active, j.epoch, j.number = found.newest, found.epoch, found.number
	return j.begin()
}

// begin makes all earlier frames void; their files must be synced. The caller holds the lock.
func (j *Journal) begin() error {
	j.begun = j.number + 1
	return j.changeSegment(appendBegin(nil))
}

// commit returns when a record is durable, together with the others of its frame. f is nil for a record about no file.
// joined is false if the frame is full and does not hold the record.
func (j *Journal) commit(f *File, record []byte) (joined bool, err error) {
	j.mu.Lock()
	if j.err != nil {
		defer j.mu.Unlock()
		return true, j.err
	}
	if j.next == nil {
		j.next = newBatch(j.spare)
		j.spare = nil
	}
	b := j.next
	if f != nil && int64(len(b.frame)+len(record)) > j.cfg.SegmentSize/4 {
		j.mu.Unlock()
		return false, nil
	}
	b.frame = append(b.frame, record...)
	if f != nil {
		b.files = append(b.files, f)
	}
	if j.writing {
		j.mu.Unlock()
		select {
		case <-b.done:
			return true, b.err
		case <-b.turn:
		}
		j.mu.Lock()
	}
	j.writing = true
	j.next = nil
	j.mu.Unlock()
	j.write(b)
	return true, b.err
}

// write makes a batch durable and hands over to the next one.
func (j *Journal) write(b *batch) {
	s, at, err := j.reserve(b)
	if err == nil {
		err = s.write(b.frame, at)
	}
	if err != nil {
		err = j.fail(err)
	}
	j.metrics.syncs.Inc()
	j.metrics.writes.Add(float64(len(b.files)))
	j.mu.Lock()
	next := j.next
	j.writing = next != nil
	if cap(b.frame) <= keptFrame {
		j.spare = b.frame
	}
	j.mu.Unlock()
	b.err = err
	close(b.done)
	if next != nil {
		next.turn <- struct{}{}
	}
}

// reserve returns the place of a frame. It waits for a free segment if it needs one. After a failure it returns that
// failure: a frame behind one that is not on the disk would make the journal look damaged.
func (j *Journal) reserve(b *batch) (*segment, int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return nil, 0, j.err
	}
	if active := j.segments[j.active]; active.at+aligned(len(b.frame)) > active.size {
		for j.segments[1-j.active].busy && j.err == nil {
			j.freed.Wait()
		}
		if j.err != nil {
			return nil, 0, j.err
		}
		if err := j.turnOver(); err != nil {
			return nil, 0, err
		}
	}
	s, at := j.place(b)
	for _, f := range b.files {
		if _, held := s.held[f]; !held {
			s.held[f] = struct{}{}
			f.holders++
		}
	}
	return s, at, nil
}

// place gives a frame its number and its place, which must be free. The caller holds the lock.
func (j *Journal) place(b *batch) (*segment, int64) {
	j.number++
	seal(b.frame, j.epoch, j.number, j.begun)
	s := j.segments[j.active]
	at := s.at
	s.at += aligned(len(b.frame))
	return s, at
}

// turnOver continues in the other segment and starts the sync of this one's files. The caller holds the lock.
func (j *Journal) turnOver() error {
	full := j.segments[j.active]
	full.busy = true
	j.workers.Go(func() { j.release(full) })
	return j.changeSegment(nil)
}

// changeSegment begins an epoch in the other segment, which must be free, with a frame of the records. The frame fits
// into one sector and is synced alone: a larger one, torn, could leave a gap among the frames of the epoch under it,
// which still count until it is whole. The caller holds the lock.
func (j *Journal) changeSegment(records []byte) error {
	j.active = 1 - j.active
	j.segments[j.active].at = 0
	j.epoch++
	b := newBatch(nil)
	b.frame = append(b.frame, records...)
	s, at := j.place(b)
	return s.write(b.frame, at)
}

// release syncs the files with frames in a segment. Afterwards the segment can be overwritten.
func (j *Journal) release(s *segment) {
	var failed error
	for f := range s.held {
		if failed = f.syncInner(); failed != nil {
			break
		}
	}
	if failed != nil {
		_ = j.fail(fmt.Errorf("sync what the journal is about: %w", failed))
		return // the files stay open: the journal has the bytes that they lack, for the next start
	}
	var over []*File
	j.mu.Lock()
	for f := range s.held {
		if f.let() {
			over = append(over, f)
		}
	}
	clear(s.held)
	s.busy = false
	j.freed.Broadcast()
	j.mu.Unlock()
	for _, f := range over {
		if err := f.inner.Close(); err != nil {
			_ = j.fail(err)
		}
	}
}

// fail records the first failure, calls Config.Fatal, and returns the first failure.
func (j *Journal) fail(err error) error {
	j.mu.Lock()
	first := j.err == nil || errors.Is(j.err, ErrClosed)
	if first {
		j.err = fmt.Errorf("journal: %w", err)
	}
	err = j.err
	j.freed.Broadcast()
	j.mu.Unlock()
	if first {
		j.cfg.Fatal(err)
	}
	return err
}

// Forget makes all earlier writes to files below a folder void. These files must be synced or removed.
func (j *Journal) Forget(dir string) error {
	path, err := j.below(dir)
	if err != nil {
		return err
	}
	_, err = j.commit(nil, appendForget(nil, path))
	return err
}

func (j *Journal) below(path string) (string, error) {
	rel, err := filepath.Rel(j.cfg.Root, path)
	if err == nil && !filepath.IsLocal(rel) {
		err = fmt.Errorf("%s is not below %s", path, j.cfg.Root)
	}
	if err != nil {
		return "", fmt.Errorf("journal: %w", err)
	}
	return filepath.ToSlash(rel), nil
}

// Close syncs all files and leaves an empty journal. The caller must not write to any file any more. After a failure
// the journal stays as it is, for the next start.
func (j *Journal) Close() error {
	j.mu.Lock()
	failed := j.err
	if failed == nil {
		j.err = ErrClosed
	}
	j.mu.Unlock()
	if failed != nil {
		return errors.Join(failed, j.closeSegments())
	}
	j.workers.Wait()
	return errors.Join(j.settle(), j.closeSegments())
}

func (j *Journal) settle() error {
	for _, s := range j.segments {
		j.release(s)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !errors.Is(j.err, ErrClosed) {
		return j.err
	}
	return j.begin()
}

func (j *Journal) closeSegments() error {
	var errs []error
	for _, s := range j.segments {
		if s != nil {
			errs = append(errs, s.file.Close())
		}
	}
	return errors.Join(errs...)
}
