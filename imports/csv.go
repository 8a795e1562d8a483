package imports

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/client"
)

// The fields of a task that a CSV can have.
const (
	csvID      = "id"
	csvDue     = "due"
	csvQueue   = "queue"
	csvPayload = "payload"
)

// CSV reads tasks as rows below a header. The columns id and due are needed, queue and payload may be there. Without a
// column for it, the payload is an object of all columns.
type CSV struct {
	In      io.Reader
	Columns map[string]string // names of columns by the fields id, due, queue and payload; absent: the field's own
	Unit    Unit              // of due times that are numbers
	Prefix  string            // of all ids
	Queue   string            // of tasks without one; empty: "default"
}

// Records implements Source.
func (s CSV) Records(context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		table := csv.NewReader(s.In)
		header, err := table.Read()
		if err != nil {
			yield(Record{}, fmt.Errorf("the header: %w", err))
			return
		}
		places, err := s.places(header)
		if err != nil {
			yield(Record{}, err)
			return
		}
		for {
			row, err := table.Read()
			if errors.Is(err, io.EOF) {
				return
			}
			record := Record{Text: strings.Join(row, ",")}
			var malformed *csv.ParseError
			switch {
			case errors.As(err, &malformed):
				record.Key, record.Err = fmt.Sprint("line ", malformed.StartLine), malformed.Err
			case err != nil:
				yield(record, err)
				return
			default:
				at, _ := table.FieldPos(0)
				record.Key = fmt.Sprint("line ", at)
				record.Task, record.Err = s.task(header, row, places)
			}
			if !yield(record, nil) {
				return
			}
		}
	}
}

// places returns the index of the column of each field.
func (s CSV) places(header []string) (map[string]int, error) {
	places := map[string]int{}
	for _, field := range []string{csvID, csvDue, csvQueue, csvPayload} {
		column, named := s.Columns[field]
		if !named {
			column = field
		}
		i := slices.Index(header, column)
		if i < 0 && (named || field == csvID || field == csvDue) {
			return nil, fmt.Errorf("there is no column %q for the field %s: the header has %q", column, field, header)
		}
		if i >= 0 {
			places[field] = i
		}
	}
	for field := range maps.Keys(s.Columns) {
		if _, known := places[field]; !known {
			return nil, fmt.Errorf("%q is none of the fields id, due, queue and payload", field)
		}
	}
	return places, nil
}

func (s CSV) task(header, row []string, places map[string]int) (t client.Task, err error) {
	value := func(field, otherwise string) string {
		if i, there := places[field]; there && row[i] != "" {
			return row[i]
		}
		return otherwise
	}
	t = client.Task{ID: s.Prefix + value(csvID, ""), Queue: value(csvQueue, s.Queue)}
	if value(csvID, "") == "" {
		return t, errNoID
	}
	if t.FireAt, err = s.Unit.Parse(value(csvDue, "")); err != nil {
		return t, fmt.Errorf("due: %w", err)
	}
	if i, there := places[csvPayload]; there {
		SetPayload(&t, []byte(row[i]))
		return t, nil
	}
	whole := map[string]string{}
	for i, column := range header {
		whole[column] = row[i]
	}
	t.Payload, err = json.Marshal(whole)
	return t, err
}
