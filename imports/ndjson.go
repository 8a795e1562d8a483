package imports

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/contract"
)

// NDJSON reads tasks as lines of JSON: the body of PUT /v1/tasks/{id} with the id as a further member. A line needs an
// id and fire_at, so that a repeated import finds its task.
type NDJSON struct {
	In     io.Reader
	Prefix string // of all ids
	Queue  string // of tasks without one; empty: "default"
}

// Records implements Source.
func (s NDJSON) Records(context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for line, err := range lines(s.In) {
			if err != nil {
				yield(Record{}, err)
				return
			}
			record := Record{Key: line.name(), Text: string(line.text), Err: line.err}
			if len(bytes.TrimSpace(line.text)) == 0 && line.err == nil {
				continue
			}
			if record.Err == nil {
				record.Task, record.Err = s.task(line.text)
			}
			if !yield(record, nil) {
				return
			}
		}
	}
}

var (
	errNoID   = errors.New("id is missing: without it a repeated import would schedule the task again")
	errNoDue  = errors.New("fire_at is missing: a delay would count from each import anew")
	errSpread = errors.New("jitter changes the due time by which a repeated import finds the task: give the final fire_at")
)

// task reads a task as strictly as the API.
func (s NDJSON) task(line []byte) (t client.Task, err error) {
	var seen contract.Set
	r := contract.NewReader(line)
	err = r.Root(&contract.PutObject, &seen, r.SkipMember)
	switch {
	case err != nil:
		return t, err
	case !seen.Has(contract.ID):
		return t, errNoID
	case !seen.Has(contract.FireAt) || seen.Has(contract.Delay):
		return t, errNoDue
	case seen.Has(contract.Jitter):
		return t, errSpread
	}
	if err := t.UnmarshalJSON(line); err != nil {
		return t, cmp.Or(errors.Unwrap(err), err) // without the words about an answer
	}
	t.ID = s.Prefix + t.ID
	if t.Queue == "" {
		t.Queue = s.Queue
	}
	return t, nil
}

// line is a line of a file.
type line struct {
	number int
	text   []byte // valid until the next line
	err    error  // the line is too long; text is its beginning
}

func (l line) name() string { return fmt.Sprint("line ", l.number) }

const maxLine = 1 << 20 // bytes, more than the API takes

var errLong = fmt.Errorf("the line is too long (limit %d bytes)", maxLine)

// lines yields the lines of a file, without their ends.
func lines(in io.Reader) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		r := bufio.NewReaderSize(in, maxLine)
		for l := (line{number: 1}); ; l = (line{number: l.number + 1}) {
			text, err := r.ReadSlice('\n')
			if errors.Is(err, bufio.ErrBufferFull) {
				l.err, text = errLong, bytes.Clone(text[:80])
				for errors.Is(err, bufio.ErrBufferFull) {
					_, err = r.ReadSlice('\n')
				}
			}
			if err != nil && !errors.Is(err, io.EOF) {
				yield(l, fmt.Errorf("%s: %w", l.name(), err))
				return
			}
			l.text = bytes.TrimRight(text, "\r\n")
			if len(text) > 0 && !yield(l, nil) || err != nil {
				return
			}
		}
	}
}
