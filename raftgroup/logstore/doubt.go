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

// After a failed fsync the kernel still shows the bytes that it could not write, and takes them for written: no later
// fsync tries again, and a crash of the machine brings the old bytes back. So a process that starts anew reads bytes
// that are not on the disk, and would build on them. A failed write is therefore noted in the lock file, for the next
// process on this machine; the note itself need not be durable, since those bytes do not outlive the machine's memory
// either. Where the note is found, every file is written over with its own content, and synced, before it is relied on.

// A process that was killed in the middle of a write leaves the same behind without any failure: bytes that the kernel
// shows and may not have written yet. A follower that finds them in its log would tell the leader that it has these
// entries, and so have a part in acknowledging them, without ever having synced them. So all files are synced at every
// start, before anything relies on them.

var doubted = []byte("a write has failed\n")

// doubtTimeout is how long noting it may take: a disk that hangs must not keep the process from its end.
const doubtTimeout = time.Second

// doubt notes that what the folder's files show may not be on the disk.
func doubt(lock *os.File) {
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		_, _ = lock.WriteAt(doubted, 0) // the process ends already
	}()
	timeout := time.NewTimer(doubtTimeout)
	defer timeout.Stop()
	select {
	case <-noted:
	case <-timeout.C:
	}
}

// settleFiles makes what a folder's files show durable.
func (f folder) settleFiles(lock *os.File, sync syncFile) error {
	note := make([]byte, len(doubted))
	n, err := lock.ReadAt(note, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if n == 0 {
		return f.eachFile(sync, syncPath)
	}
	if err := f.eachFile(sync, rewrite); err != nil {
		return fmt.Errorf("a write has failed here, and what is not on the disk is written again: %w", err)
	}
	return lock.Truncate(0)
}

// syncFile is (*os.File).Sync.
type syncFile func(*os.File) error

// eachFile does something with the group's files, and syncs their names.
func (f folder) eachFile(sync syncFile, do func(path string, sync syncFile) error) error {
	return errors.Join(eachFile(string(f), sync, do), eachFile(f.wal(), sync, do))
}

// eachFile does something with the files right in dir, and then syncs their names.
func eachFile(dir string, sync syncFile, do func(path string, sync syncFile) error) error {
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
		if err := do(filepath.Join(dir, e.Name()), sync); err != nil {
			return err
		}
	}
	return syncPath(dir, sync)
}

func syncPath(path string, sync syncFile) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(sync(f), f.Close())
}

const rewritePiece = 256 << 10

// rewrite is torn nowhere if it is interrupted: each byte is written over with itself.
func rewrite(path string, sync syncFile) (err error) {
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
			return sync(file)
		}
		at += int64(n)
	}
}
