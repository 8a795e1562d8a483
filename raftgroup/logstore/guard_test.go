package logstore

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfryhq/belfry/internal/assert"
)

var errDisk = errors.New("input/output error")

// faultyBackend is a log in memory whose writes fail or hang on demand.
type faultyBackend struct {
	*raft.InmemStore
	writes atomic.Int32
	before func() error // runs in each write; nil: none
	read   func() error // runs in each read; nil: none
}

func (b *faultyBackend) write() error {
	b.writes.Add(1)
	if b.before == nil {
		return nil
	}
	return b.before()
}

func (b *faultyBackend) StoreLogs(logs []*raft.Log) error {
	return errors.Join(b.write(), b.InmemStore.StoreLogs(logs))
}

func (b *faultyBackend) DeleteRange(first, last uint64) error {
	return errors.Join(b.write(), b.InmemStore.DeleteRange(first, last))
}

func (b *faultyBackend) Set(key, val []byte) error {
	return errors.Join(b.write(), b.InmemStore.Set(key, val))
}

func (b *faultyBackend) SetUint64(key []byte, val uint64) error {
	return errors.Join(b.write(), b.InmemStore.SetUint64(key, val))
}

func (b *faultyBackend) GetLog(index uint64, log *raft.Log) error {
	if b.read != nil {
		if err := b.read(); err != nil {
			return err
		}
	}
	return b.InmemStore.GetLog(index, log)
}

func (b *faultyBackend) Close() error { return nil }

func faultyStores(b *faultyBackend, rec *recorder) (*guardedLog, *guardedStable) {
	g := newGuard(time.Second, rec.fatal)
	_ = g.arm()
	return &guardedLog{inner: b, stable: b, guard: g, began: true}, &guardedStable{StableStore: b, guard: g}
}

// writesOf returns all the operations that write.
func writesOf(log *guardedLog, stable *guardedStable) map[string]func() error {
	return map[string]func() error{
		"StoreLog":    func() error { return log.StoreLog(entry(1, 1)) },
		"StoreLogs":   func() error { return log.StoreLogs(entries(1, 2, 1)) },
		"DeleteRange": func() error { return log.DeleteRange(1, 1) },
		"Set":         func() error { return stable.Set([]byte("k"), []byte("v")) },
		"SetUint64":   func() error { return stable.SetUint64([]byte("n"), 1) },
	}
}

func mustFailAlike(t *testing.T, log *guardedLog, stable *guardedStable, cause error) {
	t.Helper()
	for name, write := range writesOf(log, stable) {
		assert.ErrorIs(t, write(), cause, "%s after the failure", name)
	}
}

func TestFirstFailedWriteIsTheLast(t *testing.T) {
	for name := range writesOf(nil, nil) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &faultyBackend{InmemStore: raft.NewInmemStore(), before: func() error { return errDisk }}
				rec := newRecorder()
				log, stable := faultyStores(b, rec)
				var err error
				log.metrics, err = newMetrics(prometheus.NewRegistry(), func() (int64, error) { return 0, nil })
				assert.NoError(t, err)
				if err := writesOf(log, stable)[name](); !errors.Is(err, errDisk) {
					t.Fatalf("error %v", err)
				}
				b.before = nil // the disk would accept the next write
				mustFailAlike(t, log, stable, errDisk)
				assert.Equal(t, b.writes.Load(), 1, "writes reached the disk")
				if errs := rec.all(); len(errs) != 1 || !errors.Is(errs[0], errDisk) {
					t.Errorf("fatal errors: %v", errs)
				}
				assert.Equal(t, testutil.ToFloat64(log.metrics.bytes), 0, "bytes of a failed write were counted")
			})
		})
	}
}

func TestHungWriteIsFatal(t *testing.T) {
	for name := range writesOf(nil, nil) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { hangIn(t, name) })
		})
	}
}

func hangIn(t *testing.T, name string) {
	disk := make(chan struct{})
	b := &faultyBackend{InmemStore: raft.NewInmemStore(), before: func() error { <-disk; return nil }}
	rec := newRecorder()
	log, stable := faultyStores(b, rec)
	start := time.Now()
	hung, waiting := make(chan error, 1), make(chan error, 1)
	go func() { hung <- writesOf(log, stable)[name]() }()
	synctest.Wait()
	go func() { waiting <- log.DeleteRange(1, 1) }()

	<-rec.told
	if took := time.Since(start); took != time.Second {
		t.Errorf("fatal after %v, want 1s", took)
	}
	assert.ErrorIs(t, <-waiting, ErrWriteTimeout, "a write that waited for its turn")
	mustFailAlike(t, log, stable, ErrWriteTimeout)
	close(disk) // the disk comes back, and the write succeeds late
	assert.ErrorIs(t, <-hung, ErrWriteTimeout, "a write that succeeded too late")
	mustFailAlike(t, log, stable, ErrWriteTimeout)
	assert.Equal(t, b.writes.Load(), 1, "writes reached the disk")
	errs := rec.all()
	assert.Equal(t, len(errs), 1, "fatal errors: %v", errs)
}

func TestSlowWritesPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func() error { time.Sleep(999 * time.Millisecond); return nil }
		b := &faultyBackend{InmemStore: raft.NewInmemStore(), before: slow}
		rec := newRecorder()
		log, _ := faultyStores(b, rec)
		for i := range uint64(5) {
			assert.NoError(t, log.StoreLog(entry(i+1, 1)))
		}
		time.Sleep(time.Minute) // no watchdog remains
		errs := rec.all()
		assert.Equal(t, len(errs), 0, "fatal errors: %v", errs)
	})
}

func TestShutSaysWhetherAWriteHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(time.Second, func(error) {})
		_ = g.arm()
		disk := make(chan struct{})
		go func() { _ = g.run("write", func() error { <-disk; return nil }) }()
		synctest.Wait()
		if g.shut() {
			t.Error("shut while a write hangs")
		}
		close(disk)
		if !newGuard(time.Second, nil).shut() {
			t.Error("an idle guard did not shut")
		}
	})
}

func TestFailureInOpenIsNotFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := newRecorder()
		g := newGuard(time.Second, rec.fatal)
		_ = g.watch("write", func() error { return errDisk })
		assert.ErrorIs(t, g.arm(), errDisk, "arm")
		errs := rec.all()
		assert.Equal(t, len(errs), 0, "fatal errors: %v", errs)
	})
}

func TestReadThatMeetsADeletionIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		b := &faultyBackend{InmemStore: raft.NewInmemStore()}
		b.read = func() error {
			if reads++; reads == 1 {
				return &os.PathError{Op: "read", Path: "segment", Err: os.ErrClosed}
			}
			return nil
		}
		log, _ := faultyStores(b, newRecorder())
		assert.NoError(t, log.StoreLog(entry(1, 1)))
		mustRead(t, log, 1, 1)
	})
}

// TestMarkFollowsTheFirstEntries checks that a crash between the first entries and the mark does not look like a loss.
func TestMarkFollowsTheFirstEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &faultyBackend{InmemStore: raft.NewInmemStore()}
		log, _ := faultyStores(b, newRecorder())
		log.began = false
		b.before = func() error {
			if last, _ := b.LastIndex(); last == 0 && b.writes.Load() > 1 {
				t.Error("the mark was written before the entries")
			}
			return nil
		}
		for i := range uint64(3) {
			assert.NoError(t, log.StoreLog(entry(i+1, 1)))
		}
		if n, err := b.GetUint64(keyBegan); err != nil || n != 1 {
			t.Errorf("mark %d, %v", n, err)
		}
		assert.Equal(t, b.writes.Load(), 4, "writes for three entries and one mark")
	})
}
