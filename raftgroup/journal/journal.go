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
	// ErrDamaged says that something that the journal had acknowledged cannot be read any more.
	ErrDamaged = errors.New("the journal is damaged")
	// ErrClosed says that the journal is closed.
	ErrClosed = errors.New("the journal is closed")
)

// Config says where the journal is, and of what.
type Config struct {
	Dir  string // its own; made if it is absent
	Root string // the files' paths are recorded below it

	// Fatal is called once, when the disk has failed; later writes fail with the same error. Required.
	Fatal      func(error)
	Registerer prometheus.Registerer // default: none

	// SegmentSize is in bytes, allocated twice. Default DefaultSegmentSize.
	SegmentSize int64

	sync func(*os.File) error // of a segment's data; tests see to it themselves
}

// DefaultSegmentSize holds a second or two of writes under full load.
const DefaultSegmentSize = 4 << 20

// Journal is open. Its files may be written to by any goroutines, each file by one at a time.
type Journal struct {
	cfg     Config
	metrics *metrics

	mu       sync.Mutex
	freed    *sync.Cond // a segment can be written over, or something has failed
	segments [2]*segment
	active   int    // of the two
	epoch    uint64 // of the active segment
	number   uint64 // of the last frame
	next     *batch // gathers; nil: nothing has come
	spare    []byte // a frame that was written, for the next batch; nil: none
	writing  bool   // somebody writes a frame, and will hand over to next
	err      error  // nothing is written any more
	workers  sync.WaitGroup
}

// batch is what one frame is made of.
type batch struct {
	frame []byte // with room for its head
	files []*File
	turn  chan struct{} // capacity 1: the Sync that takes the token writes
	done  chan struct{} // closed with err set
	err   error
}

// Open makes the files whole, and begins a journal. No error of Open calls Config.Fatal.
func Open(cfg Config) (*Journal, error) {
	if cfg.SegmentSize == 0 {
		cfg.SegmentSize = DefaultSegmentSize
	}
	if cfg.sync == nil {
		cfg.sync = syncData
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

// begin writes a frame that makes all earlier ones void; their files must be synced. It is written over the older of
// the two epochs: if it is torn, the rest of that epoch is still a row of frames without a gap.
func (j *Journal) begin() error {
	j.changeSegment()
	b := newBatch(nil)
	b.frame = appendBegin(b.frame)
	s, at := j.place(b)
	return s.write(b.frame, at)
}

// commit returns when a record is durable, with those that came together. The file is nil if it is about none. False:
// the frame is full, and the record is not in it.
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

// write makes a batch durable and hands over to the next.
func (j *Journal) write(b *batch) {
	s, at, err := j.reserve(b)
	if err == nil {
		err = s.write(b.frame, at)
	}
	if err != nil {
		err = j.fail(err)
	}
	j.metrics.count(len(b.files))
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

// reserve finds the place of a frame. It waits if that is not free yet.
func (j *Journal) reserve(b *batch) (*segment, int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.segments[j.active].fits(len(b.frame)) {
		for j.segments[1-j.active].busy && j.err == nil {
			j.freed.Wait()
		}
		if j.err != nil {
			return nil, 0, j.err
		}
		j.turnOver()
	}
	s, at := j.place(b)
	for _, f := range b.files {
		s.hold(f)
	}
	return s, at, nil
}

// place gives a frame its number and its place, which must be free; with the lock.
func (j *Journal) place(b *batch) (*segment, int64) {
	j.number++
	seal(b.frame, j.epoch, j.number)
	s := j.segments[j.active]
	return s, s.take(len(b.frame))
}

// turnOver goes on in the other segment, and has the files of this one synced; with the lock.
func (j *Journal) turnOver() {
	full := j.segments[j.active]
	full.busy = true
	j.workers.Go(func() { j.release(full) })
	j.changeSegment()
}

// changeSegment begins an epoch in the other segment, which must be free; with the lock.
func (j *Journal) changeSegment() {
	j.active = 1 - j.active
	j.segments[j.active].at = 0
	j.epoch++
}

// release syncs the files that a segment is about, after which it can be written over.
func (j *Journal) release(s *segment) {
	var failed error
	for f := range s.held {
		if failed = f.inner.Sync(); failed != nil {
			break
		}
	}
	if failed != nil {
		_ = j.fail(fmt.Errorf("sync what the journal is about: %w", failed))
		return // the files stay open: what they lack is in the journal, for the next start
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

// fail records the first failure, and returns that.
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

// Forget makes all earlier writes to files below a folder void. The files must be synced, or gone.
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

// Close syncs all files and leaves a journal that says nothing. No file may be written to any more. After a failure it
// leaves the journal as it is, for the next start.
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
