package logstore

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/belfryhq/belfry/raftgroup/durable"
)

// Stores holds a group's open folder.
type Stores struct {
	folder  folder
	guard   *guard
	lock    *os.File
	stable  *raftboltdb.BoltStore
	inner   backend
	log     *guardedLog
	votes   *guardedStable
	metrics *metrics

	configuration raft.Configuration // the last configuration in the log at Open
	configured    uint64             // index of that configuration; 0: none

	closing  sync.Once
	closeErr error
}

// Open opens the group's folder, with the files that a new group needs, and returns stores that raft.NewRaft can start
// from.
//
// Its errors wrap ErrLostLog, ErrDamaged, ErrInUse or ErrKindMismatch where they apply. No error of Open calls
// Config.Fatal, and none makes the folder worse: Open can be tried again once the cause is removed.
func Open(cfg Config) (*Stores, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Stores{folder: folder(cfg.Dir), guard: newGuard(cfg.WriteTimeout, cfg.Fatal)}
	if err := s.open(cfg); err != nil {
		if s.lock != nil && !refusal(err) {
			doubt(s.lock) // the failure may have been a write
		}
		return nil, errors.Join(fmt.Errorf("log store: %w", err), s.Close())
	}
	return s, nil
}

// refusal reports whether Open refused the folder's content, so that no write can have failed.
func refusal(err error) bool {
	for _, known := range []error{ErrLostLog, ErrDamaged, ErrInUse, ErrKindMismatch} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

func (s *Stores) open(cfg Config) error {
	if err := durable.MakeDir(cfg.Dir); err != nil {
		return err
	}
	var err error
	if s.lock, err = lockFile(s.folder.lock()); err != nil {
		return err
	}
	s.guard.doubt = func() { doubt(s.lock) }
	if err := s.folder.settleFiles(s.lock, cfg.sync); err != nil {
		return err
	}
	if err := s.folder.checkKind(cfg.Kind); err != nil {
		return err
	}
	found, err := s.folder.checkFiles(cfg)
	if err != nil {
		return err
	}
	if s.stable, err = openBolt(s.folder.stable()); err != nil {
		return err
	}
	began, err := logBegan(s.stable)
	if err != nil {
		return err
	}
	if began && !found {
		return fmt.Errorf("%w: %s has begun a log, and %s is missing", ErrLostLog, cfg.Dir, s.folder.log(cfg.Kind))
	}
	if s.inner, err = openLog(s.folder, cfg, s.guard); err != nil {
		return err
	}
	if s.metrics, err = newMetrics(cfg.Registerer, s.DiskBytes); err != nil {
		return err
	}
	s.log = &guardedLog{inner: s.inner, stable: s.stable, guard: s.guard, metrics: s.metrics, began: began}
	s.votes = &guardedStable{StableStore: s.stable, guard: s.guard}
	if err := s.settle(cfg); err != nil {
		return err
	}
	return s.guard.arm()
}

func openLog(f folder, cfg Config, g *guard) (backend, error) {
	if cfg.Kind == BoltDB {
		store, err := openBolt(f.bolt())
		if err != nil {
			return nil, err // returning store would make a non-nil interface of a nil *BoltStore
		}
		return store, nil
	}
	if err := durable.MakeDir(f.wal()); err != nil {
		return nil, err
	}
	if cfg.Journal != nil { // the journal may hold writes to earlier files of these names
		if err := cfg.Journal.Forget(f.wal()); err != nil {
			return nil, err
		}
	}
	log, err := openWAL(f.wal(), cfg, g)
	if err != nil {
		return nil, err
	}
	return log, nil
}

// Log returns the group's log. It is a raft.MonotonicLogStore; a wrapper must forward that, as logcache does.
func (s *Stores) Log() raft.LogStore { return s.log }

// Stable returns the store of the group's term and vote.
func (s *Stores) Stable() raft.StableStore { return s.votes }

// Configuration returns the last configuration in the log at Open, and its index; 0: none.
func (s *Stores) Configuration() (raft.Configuration, uint64) { return s.configuration, s.configured }

// DiskBytes returns the bytes of all files directly in the folder and in its wal folder, segments allocated ahead
// included. Snapshots lie in a folder of their own. Bolt files never shrink.
func (s *Stores) DiskBytes() (int64, error) { return s.folder.size() }

// Close closes the stores and releases the folder. The caller calls it after Raft's shutdown; a repeated call does
// nothing more. Close waits for the write under way. Later writes fail with ErrClosed. While a write hangs, the files
// cannot be closed: the folder stays locked, and the error says so.
func (s *Stores) Close() error {
	s.closing.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Stores) close() error {
	idle := s.guard.shut()
	if s.metrics != nil {
		s.metrics.unregister()
	}
	if !idle {
		return fmt.Errorf("log store: a write still hangs, the folder stays open: %w", s.guard.failure())
	}
	var errs []error
	if s.inner != nil {
		err := s.inner.Close()
		if errors.Is(err, ErrWriteTimeout) {
			return fmt.Errorf("log store: the folder stays open: %w", err)
		}
		errs = append(errs, err)
	}
	if s.stable != nil {
		errs = append(errs, s.stable.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}
