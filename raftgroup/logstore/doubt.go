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

// After a failed fsync the kernel still shows the bytes that it could not write, and counts them as written. No later
// fsync tries again, and a crash of the machine brings the old bytes back. So a new process reads bytes that are not on
// the disk, and would build on them. A failed write is therefore noted in the lock file, for the next process on this
// machine. That process overwrites every file with its own content and syncs the file before it relies on it. The note
// itself need not be durable, since those bytes do not outlive the machine's memory either.

// doubted is the note of a failed write.
//
// A process killed in the middle of a write leaves such bytes without a failure and without the note: the kernel shows
// them and may not have written them yet. A follower with such entries in its log would tell the leader that it has
// them, and so help to acknowledge entries that it never synced. So every start syncs all files before any use.
var doubted = []byte("a write has failed\n")

// doubtTimeout limits the time to write the note, because a hung disk must not keep the process from its end.
const doubtTimeout = time.Second

// doubt writes the note that the bytes in the folder's files may not be on the disk.
func doubt(lock *os.File) {
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		_, _ = lock.WriteAt(doubted, 0) // an error does not matter: the process ends
	}()
	timeout := time.NewTimer(doubtTimeout)
	defer timeout.Stop()
	select {
	case <-noted:
	case <-timeout.C:
	}
}

// settleFiles makes the present bytes of a folder's files durable.
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
		return fmt.Errorf("a write has failed here, and the missing entries are written again: %w", err)
	}
	return lock.Truncate(0)
}

// syncFile is the type of (*os.File).Sync.
type syncFile func(*os.File) error

// eachFile calls do for each of the group's files and syncs their names.
func (f folder) eachFile(sync syncFile, do func(path string, sync syncFile) error) error {
	return errors.Join(eachFile(string(f), sync, do), eachFile(f.wal(), sync, do))
}

// eachFile calls do for each file directly in dir, and then syncs the files' names.
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

// rewrite overwrites a file with its own content and syncs it. An interruption tears nothing, because each byte stays
// the same.
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
