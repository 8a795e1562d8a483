package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// MaxLimit is the largest number of records in a Page.
const MaxLimit = 1000

// Query selects records of one log.
type Query struct {
	After string    // id of a record: only later ones; empty: from the oldest
	Since time.Time // only records of this instant or later; zero: all
	Limit int       // 1 to MaxLimit
}

// Page holds records of one log, oldest first.
type Page struct {
	Lines [][]byte // the records as JSON, without line ends
	Next  string   // id of the record up to which the log was read; the After of the next page
	More  bool     // further records are there
	Lost  []uint64 // missing records right before each line: not written, or removed with an old file
}

// section is the part of one file that holds whole lines.
type section struct {
	file   *os.File
	size   int64
	begins time.Time // of its first record; zero: it is empty
}

// Read returns the records that a query selects. A position in another log, which was in the same place before, selects
// all records.
func (l *Log) Read(ctx context.Context, q Query) (Page, error) {
	after, err := parsePosition(q.After)
	if err != nil {
		return Page{}, err
	}
	sections, last, err := l.sections(&after)
	defer closeAll(sections)
	if err != nil {
		return Page{}, err
	}
	s := scan{query: q, at: after, page: Page{Next: after.String()}}
	if after.log == "" {
		s.page.Next = position{last.log, 0}.String()
	}
	for i, part := range sections {
		if i+1 < len(sections) && !sections[i+1].begins.IsZero() && sections[i+1].begins.Before(q.Since) {
			s.at = position{} // all of its records are older, and none of them counts as missing
			continue
		}
		if err := s.read(ctx, part); err != nil || s.page.More {
			return s.page, err
		}
	}
	return s.page, nil
}

func closeAll(sections []section) {
	for _, s := range sections {
		_ = s.file.Close() // opened for reading
	}
}

// sections opens the files with records after a position. It moves a position that is not of this log to its begin.
func (l *Log) sections(after *position) (open []section, last position, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last = l.files.last
	if after.log != last.log || after.number > last.number {
		*after = position{log: "", number: 0}
	}
	older, err := l.files.older()
	if err != nil {
		return nil, last, err
	}
	older = append(older, olderFile{l.files.path, l.files.first})
	for i, o := range older {
		if i+1 < len(older) && older[i+1].first > 0 && older[i+1].first <= after.number+1 && after.number > 0 {
			continue // all of its records are before the position
		}
		part, err := openSection(o.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return open, last, err
		}
		if i == len(older)-1 {
			part.size = l.files.size
		}
		open = append(open, part)
	}
	return open, last, nil
}

func openSection(path string) (section, error) {
	f, err := os.Open(path)
	if err != nil {
		return section{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return section{}, errors.Join(err, f.Close())
	}
	_, begins, err := firstRecord(f)
	if err != nil {
		return section{}, errors.Join(err, f.Close())
	}
	return section{f, info.Size(), begins}, nil
}

// scan reads a page.
type scan struct {
	query Query
	at    position // of the newest record read
	page  Page
}

// read reads a file until the page is full.
func (s *scan) read(ctx context.Context, part section) error {
	lines := bufio.NewScanner(io.NewSectionReader(part.file, 0, part.size))
	lines.Buffer(nil, maxLine)
	for lines.Scan() && !s.page.More {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.take(lines.Bytes()); err != nil {
			return fmt.Errorf("%s: %w", part.file.Name(), err)
		}
	}
	return lines.Err()
}

// missing returns how many records are missing before a position.
func (s *scan) missing(at position) uint64 {
	if at.log != s.at.log || s.at.number == 0 {
		return 0
	}
	return at.number - s.at.number - 1
}

// take adds a record to the page if the query selects it.
func (s *scan) take(line []byte) error {
	at, when, err := parseHead(line)
	switch {
	case err != nil:
		return err
	case at.log == s.at.log && at.number <= s.at.number:
		return nil
	case when.Before(s.query.Since):
	case len(s.page.Lines) == s.query.Limit:
		s.page.More = true
		return nil
	default:
		s.page.Lines = append(s.page.Lines, bytes.Clone(line))
		s.page.Lost = append(s.page.Lost, s.missing(at))
	}
	s.at, s.page.Next = at, at.String()
	return nil
}
