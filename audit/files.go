package audit

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// file is a file that takes records, as *os.File is one.
type file interface {
	io.WriteCloser
	io.ReaderAt
	Sync() error
	Truncate(size int64) error
	Stat() (os.FileInfo, error)
}

func openFile(path string) (file, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
}

// files is the files of one journal. The newest is at path; each older one has the number of its first record behind
// it. One goroutine uses it at a time.
type files struct {
	path     string
	bytes    int64  // largest size of a file: a record beyond it begins another file
	most     int    // number of files, the newest included
	prefix   string // of the name of a log that begins here
	openFile func(path string) (file, error)
	log      *slog.Logger

	newest  file
	size    int64    // of the newest: whole lines only
	first   uint64   // number of the first record in the newest; 0: it is empty
	last    position // of the newest record of the log
	unclean bool     // the newest may have a part of a line behind size
	moved   bool     // another program has moved, removed or emptied the newest
}

// begin opens the files for writing, and cuts a torn line off.
func (f *files) begin() error {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	if err := f.open(); err != nil {
		return err
	}
	if err := f.recover(); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", f.path, err), f.newest.Close())
	}
	return nil
}

func (f *files) close() error { return errors.Join(f.newest.Sync(), f.newest.Close()) }

// open opens the newest file, and makes its name durable.
func (f *files) open() error {
	newest, err := f.openFile(f.path)
	if err != nil {
		return err
	}
	info, err := newest.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", f.path)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(f.path))
	}
	if err != nil {
		return errors.Join(err, newest.Close())
	}
	f.newest, f.size = newest, info.Size()
	return nil
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// recover finds the place after the last whole line, and the position of that line.
func (f *files) recover() error {
	end, last, err := lastLine(f.newest, f.size)
	if err != nil {
		return err
	}
	if err := f.newest.Truncate(end); err != nil {
		return err
	}
	f.size = end
	if len(last) > 0 {
		at, _, err := firstRecord(f.newest)
		if err != nil {
			return fmt.Errorf("its first line is no record: %w", err)
		}
		f.first = at.number
		if f.last, _, err = parseHead(last); err != nil {
			return f.setAside(last, err)
		}
		return nil
	}
	older, err := olderFiles(f.path)
	if err == nil && len(older) > 0 {
		f.last, err = lastRecord(older[len(older)-1].path)
	}
	if f.last.log == "" {
		f.last.log = f.prefix + strings.ToLower(rand.Text()[:8])
	}
	return err
}

// setAside moves the last line, which a damaged disk or another program has made no record, to a file of its own, and
// looks at the line before it. The log goes on: records of changes would be lost otherwise, with the node.
func (f *files) setAside(line []byte, fault error) error {
	aside := DamagedPath(f.path)
	to, err := os.OpenFile(aside, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = to.Write(line)
	if err = errors.Join(err, to.Sync(), to.Close()); err != nil {
		return err
	}
	f.log.Warn("the last line of the audit log is no record, and is set aside", "path", f.path, "to", aside, "err", fault)
	f.size -= int64(len(line))
	return f.recover()
}

// DamagedPath returns the path of the lines of a file that were no records.
func DamagedPath(path string) string { return path + ".damaged" }

// Check returns an error if the file of changes or of refusals at a path ends in a line that is no record. A missing
// file is sound.
func Check(path string) error {
	_, err := lastRecord(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// lastRecord returns the position of the last record of a file, or zero if the file is empty.
func lastRecord(path string) (at position, err error) {
	f, err := os.Open(path)
	if err != nil {
		return at, err
	}
	defer func() { _ = f.Close() }() // opened for reading
	info, err := f.Stat()
	if err != nil {
		return at, err
	}
	_, last, err := lastLine(f, info.Size())
	if err == nil && len(last) > 0 {
		at, _, err = parseHead(last)
	}
	if err != nil {
		err = fmt.Errorf("%s: its last line is no record: %w", path, err)
	}
	return at, err
}

// lastLine returns the offset after the last whole line of a file, and that line; a torn line behind it is left out.
func lastLine(f io.ReaderAt, size int64) (end int64, line []byte, err error) {
	from := max(size-2*maxLine, 0)
	tail := make([]byte, size-from)
	if _, err := f.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
		return 0, nil, err
	}
	n := bytes.LastIndexByte(tail, '\n')
	if n < 0 && from > 0 {
		return 0, nil, errors.New("it has no lines of records")
	}
	tail = tail[:n+1]
	return from + int64(len(tail)), tail[bytes.LastIndexByte(tail[:max(n, 0)], '\n')+1:], nil
}

// firstRecord returns the position and the time of the first record of a file, or zeros if there is none.
func firstRecord(f io.ReaderAt) (position, time.Time, error) {
	begin := make([]byte, maxLine)
	n, err := f.ReadAt(begin, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return position{}, time.Time{}, err
	}
	line, _, whole := bytes.Cut(begin[:n], []byte("\n"))
	if !whole {
		return position{}, time.Time{}, nil
	}
	return parseHead(line)
}

// append writes the line of a record. After an error the line is not in the file.
func (f *files) append(line []byte, at position) error {
	if f.moved {
		if err := f.reopen(); err != nil {
			return err
		}
	}
	if f.unclean {
		if err := f.newest.Truncate(f.size); err != nil {
			return err
		}
		f.unclean = false
	}
	if f.size > 0 && f.size+int64(len(line)) > f.bytes {
		if err := f.rotate(); err != nil {
			return err
		}
	}
	if _, err := f.newest.Write(line); err != nil {
		f.unclean = f.newest.Truncate(f.size) != nil
		return err
	}
	if f.size == 0 {
		f.first = at.number
	}
	f.size += int64(len(line))
	f.last = at
	return nil
}

// rotate removes the oldest files beyond the bound, and begins a new one. A crash at any step leaves a log that opens.
func (f *files) rotate() error {
	if err := f.trim(); err != nil {
		return err
	}
	if err := f.newest.Sync(); err != nil {
		return err
	}
	name := fmt.Sprintf("%s.%016d", f.path, f.first)
	if err := os.Rename(f.path, name); err != nil {
		return err
	}
	full := f.newest
	if err := f.open(); err != nil { // records go on into the full file, under its old name
		return errors.Join(err, os.Rename(name, f.path))
	}
	f.first = 0
	return full.Close()
}

// look finds out whether the newest file is still the one at path, with all of its lines.
func (f *files) look() {
	named, err := os.Stat(f.path)
	if err != nil {
		f.moved = errors.Is(err, fs.ErrNotExist)
		return
	}
	own, err := f.newest.Stat()
	f.moved = err == nil && (!os.SameFile(named, own) || own.Size() < f.size)
}

// reopen opens the file that is now at path, or makes one there. The records go on with their numbers.
func (f *files) reopen() error {
	before := f.newest
	if err := f.open(); err != nil {
		return err
	}
	begin, _, err := firstRecord(f.newest)
	f.first, f.unclean, f.moved = begin.number, false, false
	return errors.Join(err, before.Close())
}

// trim leaves as many older files as may stay beside a full one and a new one.
func (f *files) trim() error {
	older, err := olderFiles(f.path)
	for ; err == nil && len(older) > f.most-2; older = older[1:] {
		if err = os.Remove(older[0].path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return err
}

// olderFile is a file that is full.
type olderFile struct {
	path  string
	first uint64 // number of its first record
}

// olderFiles returns the full files of the journal at a path, the oldest first.
func olderFiles(path string) ([]olderFile, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	var found []olderFile
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+".")
		if first, err := strconv.ParseUint(digits, 10, 64); ok && err == nil && len(digits) == 16 {
			found = append(found, olderFile{filepath.Join(filepath.Dir(path), e.Name()), first})
		}
	}
	slices.SortFunc(found, func(a, b olderFile) int { return cmp.Compare(a.first, b.first) })
	return found, nil
}
