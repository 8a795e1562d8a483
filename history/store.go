package history

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Store keeps the events of one node. It is safe for concurrent use.
type Store struct {
	cfg         Config
	metrics     *metrics
	directories *directories

	wake   chan struct{} // tells the writer that a shard has a block
	sealed chan struct{} // tells the keeper that a segment was sealed
	stop   chan struct{}
	work   sync.WaitGroup

	opening sync.Mutex // held while a shard is opened, and by Close
	keeping sync.Mutex // held while limits are applied, or a namespace or shard is removed

	mu     sync.Mutex
	shards map[uint32]*Shard
	closed bool
}

// Open opens the store in a folder, and makes the folder if there is none. Shard opens the shards.
func Open(cfg Config) (*Store, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o750); err != nil {
		return nil, err
	}
	s := &Store{
		cfg: cfg, shards: map[uint32]*Shard{}, directories: newDirectories(directoryBytes),
		wake: make(chan struct{}, 1), sealed: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	s.metrics = newMetrics(s)
	if err := s.metrics.register(cfg.Registerer); err != nil {
		return nil, err
	}
	s.work.Go(s.write)
	s.work.Go(s.keep)
	return s, nil
}

// Shard opens the events of a replica. A second call returns the same Shard.
func (s *Store) Shard(id uint32) (*Shard, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	if sh, err := s.shard(id); !errors.Is(err, ErrNoShard) {
		return sh, err
	}
	sh, err := openShard(s, id)
	if err != nil {
		return nil, fmt.Errorf("history: open shard %d: %w", id, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shards[id] = sh
	return sh, nil
}

// Stored returns the ids of the shards that have a folder, opened or not. A node drops the shards that it has no
// replica of.
func (s *Store) Stored() ([]uint32, error) {
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return nil, err
	}
	var ids []uint32
	for _, e := range entries {
		if id, err := strconv.ParseUint(e.Name(), 10, 32); err == nil && e.IsDir() {
			ids = append(ids, uint32(id))
		}
	}
	return ids, nil
}

// Erase removes the events of a namespace from all open shards, in memory and on disk. Events that are
// appended during the call may stay. After an error the caller calls it again.
func (s *Store) Erase(namespace string) error {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	var errs []error
	for _, sh := range s.open() {
		errs = append(errs, sh.erase(namespace))
	}
	return errors.Join(errs...)
}

// Last returns the last position of an open shard: see Shard.Last. The error is ErrNoShard or ErrClosed.
func (s *Store) Last(id uint32) (Position, error) {
	sh, err := s.shard(id)
	if err != nil {
		return Position{}, err
	}
	return sh.Last(), nil
}

// Namespaces returns the namespaces with events in open shards, sorted.
func (s *Store) Namespaces() []string {
	usage := map[string]int64{}
	for _, sh := range s.open() {
		sh.addUsage(usage)
	}
	return slices.Sorted(maps.Keys(usage))
}

// Close writes the events in memory and closes the files. Later calls of the shards fail or do nothing.
func (s *Store) Close() error {
	s.opening.Lock()
	defer s.opening.Unlock()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.closed = true
	s.mu.Unlock()
	close(s.stop)
	s.work.Wait()
	var errs []error
	for _, sh := range s.open() {
		errs = append(errs, sh.close())
	}
	return errors.Join(errs...)
}

// open returns the open shards.
func (s *Store) open() []*Shard {
	s.mu.Lock()
	defer s.mu.Unlock()
	shards := make([]*Shard, 0, len(s.shards))
	for _, sh := range s.shards {
		shards = append(shards, sh)
	}
	return shards
}

func (s *Store) shard(id uint32) (*Shard, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if sh := s.shards[id]; sh != nil {
		return sh, nil
	}
	return nil, ErrNoShard
}

func (s *Store) forget(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.shards, id)
}

func (s *Store) folder(id uint32) string {
	return filepath.Join(s.cfg.Dir, strconv.FormatUint(uint64(id), 10))
}

// write is the writer: it writes whole blocks of all shards, and tries again a second after a failure.
func (s *Store) write() {
	var retry <-chan time.Time
	for {
		select {
		case <-s.stop:
			return
		case <-s.wake:
			if retry != nil {
				continue
			}
		case <-retry:
		}
		retry = nil
		if !s.flush() {
			retry = time.After(retryPeriod)
		}
	}
}

// flush writes the whole blocks of all shards. It reports whether all writes succeeded.
func (s *Store) flush() bool {
	succeeded := true
	for _, sh := range s.open() {
		succeeded = sh.flush((*buffer).ready) == nil && succeeded
	}
	return succeeded
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
