package logstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// After a failed fsync the kernel still shows what it could not write, and takes it for written: no later fsync tries
// again, and a crash of the machine brings the old bytes back. So does a process that starts anew read what is not on
// the disk, and would build on it. A failed write is therefore noted in the lock file, for the next process on this
// machine; the note itself need not be durable, since what it is about does not outlive the machine's memory either.
// Where it is found, every file is written over with what it shows, and synced, before anything relies on it.

var doubted = []byte("a write has failed\n")

// doubtTimeout is how long noting it may take: a disk that hangs must not keep the process from its end.
const doubtTimeout = time.Second

// doubt notes that what the folder's files show may not be on the disk.
func doubt(lock *os.File) {
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		_, _ = lock.WriteAt(doubted, 0) // there is nobody to tell, and nothing more to be done about it
	}()
	timeout := time.NewTimer(doubtTimeout)
	defer timeout.Stop()
	select {
	case <-noted:
	case <-timeout.C:
	}
}

// dispel makes what a folder's files show durable if that is in doubt.
func (f folder) dispel(lock *os.File) error {
	note := make([]byte, len(doubted))
	if n, err := lock.ReadAt(note, 0); n == 0 && errors.Is(err, io.EOF) {
		return nil
	} else if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for _, dir := range []string{string(f), f.wal()} {
		if err := rewriteAll(dir); err != nil {
			return fmt.Errorf("a write has failed here, and what is not on the disk is written again: %w", err)
		}
	}
	return lock.Truncate(0)
}

// rewriteAll writes the files right in dir over with what they hold, and syncs them and their names.
func rewriteAll(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		if err := rewrite(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return syncDir(dir)
}

const rewritePiece = 256 << 10

// rewrite is torn nowhere if it is interrupted: each byte is written over with itself.
func rewrite(path string) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	piece := make([]byte, rewritePiece)
	for at := int64(0); ; {
		n, err := file.ReadAt(piece, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, err := file.WriteAt(piece[:n], at); err != nil {
			return err
		}
		if n < len(piece) {
			return file.Sync()
		}
		at += int64(n)
	}
}
